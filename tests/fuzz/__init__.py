"""Fuzzing of everything that memorisk reads: ``python -m tests.fuzz --help``."""
