"""In the one language there is; Django looks for it by this name."""
