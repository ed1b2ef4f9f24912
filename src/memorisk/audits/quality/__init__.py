"""How good is a set of synthetic images? Figures that name their features and their numbers of images."""
