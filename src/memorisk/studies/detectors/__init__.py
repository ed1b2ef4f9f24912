"""Benchmark of copy detectors: paper 003, tables 1 to 4, figures 1, 2 and 4, with the corrected numbers.

Start with `benchmark`. `pools` divides the patients, `cells` embeds images, `measurement` computes distances.
`detection` counts recognised copies, `results` ranks detectors, `tables` and `page` lay them out.
Columns and words are in `study.yaml`.
"""
