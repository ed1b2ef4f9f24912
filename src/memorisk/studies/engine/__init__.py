"""What all studies share: cells that are run, tables that are laid out, a folder that is written.

Start with `study`: a `Study` says how its cells are run and read, `run_study` does the rest. `runner` runs cells that
are not done, `cells` is a cell's folder. `tables` lays tables out as files, Markdown and page, `number_texts`
prints numbers as papers do. `study_file` checks a study's file.
"""
