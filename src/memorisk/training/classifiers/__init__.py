"""`train classifier`: start with `command`."""
