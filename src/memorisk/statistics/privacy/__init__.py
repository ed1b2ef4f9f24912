"""Differential privacy: accounting, and lower bounds of epsilon by measurement. Start with `accounting`."""
