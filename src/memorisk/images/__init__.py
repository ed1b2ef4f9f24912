"""Pixels in: manifests, readers, the image store, splits, checks."""
