"""The study of paper 002, "Unintended memorisation of unique features in neural networks".

Start with `study`. `config` and `plan` say which canaries are trained, `canary_training` trains one model and takes
its `measures`. `results` reads them, `tables` and `section_tables` lay them out, `page` shows them.
Columns and words are in `study.yaml`.
"""
