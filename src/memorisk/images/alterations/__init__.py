"""Changes that are made to images on purpose.

`marks` and `mark_controls` belong to paper 002, `interventions` to paper 000. `plants` makes the copies hidden in a
synthetic set. `families` holds the names and strengths of the copies of paper 004.
"""
