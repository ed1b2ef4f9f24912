"""Parts that all studies share: running cells, laying out tables, writing the folder of a study.

Start with `study`: a `Study` describes how its cells are run and read, `run_study` does the rest. `runner` runs cells
that are not done, `cells` is a cell's folder. `layout` reads the schemas and words of a study, `tables` fills them with
`rows` and lays them out as files, Markdown and page, `pages` makes the page, `number_texts` prints numbers as papers
do. `study_file` checks a study's file.
"""
