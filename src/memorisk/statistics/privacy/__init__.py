"""Differential privacy: the accounting of DP-SGD, epsilon of a patient, and a lower bound as measured."""
