"""Draw images, leave out what a detector takes for copies, draw these again: paper 004, section 3.4.

Start with `run.synthesize`: a filter (`audits.filter`) around a generator. `loop` holds its inputs and thresholds,
`rounds` draws and screens, `ledger` keeps every drawn image, `table_three` is paper 004's table 3.
`result` holds the numbers, `analysis` makes them, `verdict` decides, `page` is the report, `plan` the dry run.
"""
