"""Does a set of synthetic images copy anybody? METHODS section 5. Start with `run.audit_synthetic`.

`audits.comparison` measures; `findings` are the statistics, `flags` the pairs to look at, `verdict` decides.
`result` holds the numbers, `analysis` makes them and `tables`; `page` with `sections` and `wording` is the report.
"""
