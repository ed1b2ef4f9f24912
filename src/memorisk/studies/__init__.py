"""Papers and benchmarks repeated: grids of cells, their tables and pages.

`rare_distinctive` is paper 000, `unique_features` paper 002, `detectors` and `generators` are paper 003, `pairs` is
paper 004. `engine` holds what all of them share.
"""
