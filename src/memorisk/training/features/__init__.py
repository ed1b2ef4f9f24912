"""Features of images, computed once and kept. Start with `matrix`, the one way to a feature matrix.

`cache` keeps features, `extraction` computes them, `search_jobs` searches among them on a cluster.
"""
