"""Draw images, leave out what a detector takes for copies, draw these again: paper 004, section 3.4.

Start with `run.synthesize`: a filter (`audits.filter`) around a generator. `rounds` is the loop, `ledger` keeps
every drawn image, `final_audit` audits the kept set, `table_three` is paper 004's table 3.
`result` holds the numbers, `analysis` makes them, `verdict` decides, `page` is the report, `plan` the dry run.
"""
