"""How the admin writes what Django would write in its own way: `FORMAT_MODULE_PATH`."""
