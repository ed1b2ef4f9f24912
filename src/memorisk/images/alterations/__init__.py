"""Changes that are made to images on purpose.

`marks` and `mark_controls` are paper 002, `interventions` paper 000, `plants` the copies hidden in a synthetic set,
`families` the names and strengths of copies of paper 004.
"""
