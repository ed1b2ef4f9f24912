"""Features of images, computed once and kept: start with `features`. `cache` keeps them, `extraction` computes them."""
