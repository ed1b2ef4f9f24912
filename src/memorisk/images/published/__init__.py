"""Published data sets by name, rows of one table. Start with `sets` and `layout`, the engine that reads a row.

`file_lists`, `mimic_cxr` and `odir5k` hold rows that need more code; `objects` and `mnist` read binary files, `ct_rate`
volumes; `registry` lists all.
"""
