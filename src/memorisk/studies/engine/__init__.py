"""Parts that all studies share: running cells, laying out tables, writing the folder of a study.

Start with `study`: a `Study` describes how its cells are run and read, `run_study` does the rest. `runner` runs cells
that are not done, `cells` is a cell's folder. `tables` lays tables out as files, Markdown and page, `number_texts`
prints numbers as papers do. `study_file` checks a study's file.
"""
