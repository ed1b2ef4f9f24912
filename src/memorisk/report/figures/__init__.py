"""Figures of the reports, drawn by matplotlib: arrays in, SVG text out. Start with `sheet`, which all share.

`memorization` has classes, nulls and ROC curves; `intervals`, `histograms` and `curves` are kinds of figures.
"""
