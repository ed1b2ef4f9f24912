"""What all studies share: the folder of a cell, the file of a study, tables in the paper's layout.

Start with `cells`, which says when a cell is done. `study_file` checks a study's file. `tables` formats numbers and
writes Markdown.
"""
