"""Workers as pods: one Deployment per revision, a Job per job in the lane `bulk`."""
