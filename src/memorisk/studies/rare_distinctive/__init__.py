"""Paper 000, per-class memorization of fine-tuned classifiers: every table and figure.

Start with `run`, which walks the grid. `file` and `plan` say what is asked for, `tables` and its kin hold a table of
the paper each, `page` lays them out.
"""
