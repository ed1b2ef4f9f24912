"""`--intervene`: a class without its colour, structure or detail. Start with `run`."""
