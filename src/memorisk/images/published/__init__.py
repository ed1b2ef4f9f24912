"""Published data sets by name, rows of one table. Start with `sets` and `layout`, the engine that reads a row.

`file_lists`, `mimic_cxr` and `odir5k` hold rows that need more code; `arrays` has the rows of binary files and their
engine; `mnist` reads idx files, `medmnist` npz files, `ct_rate` volumes; `digits` is built in; `registry` lists all.
"""
