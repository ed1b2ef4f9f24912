"""A synthetic set without the images that a detector takes for copies: METHODS section 4, "Use" and "Guarantee".

Start with `run.filter_synthetic`: `sets` says who calibrates, `calibration` makes thresholds with their guarantee,
`screening` compares every image with the training set, `decisions` keeps or rejects and counts the cost.
`result` holds the numbers, `analysis` makes them and `tables`; `verdict` decides, `page` with `wording` is the report.
"""
