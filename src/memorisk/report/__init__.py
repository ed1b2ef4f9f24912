"""Pages, figures, tables and verdict files, made from a Result without knowing the method behind it."""
