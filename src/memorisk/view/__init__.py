"""``memorisk view``: finished and running runs, looked at in a browser on this machine.

Start at `server`, which binds to loopback and serves `app`. `guard` lets nobody else in. `run_list` finds the runs,
`images` gives the pixels of a run by row, `review` holds what a person says of pairs, and `marks` what a person says of
patients. Pages are templates of this package, written with the style sheet and the blocks of `memorisk.report`.

Nothing of a run is changed: a review, marks and a folder of thumbnails are added to it.
"""
