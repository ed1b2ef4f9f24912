"""`compare`: two runs side by side. Start with `run`."""
