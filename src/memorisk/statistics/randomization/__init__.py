"""Randomization: sign flips of units, permutations of classes and of groups, and random halves."""
