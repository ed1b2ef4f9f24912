"""Draw images, leave out what a detector takes for copies, draw these again: paper 004, section 3.4."""
