"""Questions that users ask, a package each; the only room where numbers meet images and networks.

Beside the packages: `rendering` (from a saved result to its page), `pseudonyms` (hashed ids, and the list of files
that an audit read), `pair_plan` (the cost of a search over all pairs) and `tracker_libraries`.
"""
