"""Twins of a classifier: what is known of their data, and their trainings as jobs."""
