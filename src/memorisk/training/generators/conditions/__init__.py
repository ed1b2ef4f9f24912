"""Pseudo-conditions: vectors that classifiers of other folds give (paper 004). Start with `pseudo_conditions`."""
