"""The benchmark of copy detectors: paper 003, tables 1 to 4, figures 1, 2 and 4, the corrected numbers beside."""
