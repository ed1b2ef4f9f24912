"""Paper 000, per-class memorization of fine-tuned classifiers: every table and figure.

Start with `study`, which reads the file and walks the grid; `plan` is its dry run. `results` reads finished cells.
`tables` lists all tables; `class_tables` and `intervention_tables` build them. `page` lays them out with `figures`.
Columns and words are in `study.yaml`.
"""
