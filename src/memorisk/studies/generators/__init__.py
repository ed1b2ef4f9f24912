"""``memorisk study generators``: how much generators memorize, by kind, training-set size, duplicates and epochs."""
