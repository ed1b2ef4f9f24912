"""Checks that two parts of a data set are a random split: unseen losses, neighbours, numbers of images."""
