"""Kinds of generators: the training of each, step by step."""
