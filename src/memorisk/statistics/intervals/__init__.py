"""Intervals of means, medians and differences over groups and seeds, and the exact interval of a share."""
