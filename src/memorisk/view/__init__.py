"""``memorisk view``: finished and running runs, shown in a browser on this machine.

Start at `server`, which binds to loopback and serves `app`. `guard` admits only the browser with the link. `run_list`
finds the runs, `images` gives the pixels of a run by row, `review` holds a person's answers on pairs, and
`memorisk.audits.classifier.marks` those on patients. Pages are templates of this package, written with the style sheet
and the blocks of `memorisk.report`.

The viewer changes nothing of a run: it adds a review, marks and a folder of thumbnails.
"""
