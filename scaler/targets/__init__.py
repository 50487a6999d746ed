"""Acting: what a decision becomes. Each target is one module or package beside `base`."""
