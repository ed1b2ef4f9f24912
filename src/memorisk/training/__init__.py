"""Weights: fitting, twin designs, models side by side; takes callbacks, knows no audit."""
