"""`images check`: what is wrong with a set before anything is trained on it. Start with `checks`."""
