"""Pages, figures, tables and verdict files, made from a `Result` without knowing the method behind it.

Start with `result` and `blocks`; `page` renders blocks to one HTML file, `columns` writes the values of tables.
`figures` draws, `statements` holds privacy statements; `earlier_verdicts` refuses verdicts of other rules.
"""
