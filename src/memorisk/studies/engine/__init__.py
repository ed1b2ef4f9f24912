"""Parts that all studies share: running cells, laying out tables, writing the folder of a study.

Start with `study`: a study derives from `Study`, whose methods `run_study` calls in their order. `runner` runs cells
that are not done, `cells` is a cell's folder. `layout` reads the schemas and words of a study, `tables` fills them with
`rows` and lays them out as files, Markdown and page, `pages` makes the page, `figures` draws rows of tables, `boards`
lays out leaderboards, `number_texts` prints numbers as papers do. `study_file` checks a study's file, `encoders` are
what benchmarks compare.
"""
