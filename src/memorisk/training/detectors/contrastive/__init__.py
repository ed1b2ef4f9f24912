"""Detectors of copies by metric losses (paper 003). Start with `fit`; `augmentations` makes the copies."""
