"""Pages, figures, tables and verdict files, made from a `Result` without knowing the method behind it.

Start with `result` and `blocks`; `page` renders blocks to one HTML file, `columns` writes the values of tables.
`kinds` lists the kinds of runs, `numbers` reads and writes dataclasses of numbers, `quantities` titles them,
`first_screen` is what a reader sees first, `looks` what a notebook shows.
`figures` draws, `statements` holds privacy statements; `verdict_forms` refuses verdicts of other rules.
"""
