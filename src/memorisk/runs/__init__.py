"""Run folders, atomic files, locks, errors, settings: how a run is kept. The package does not depend on images.

Start with `folder`. `files` writes and reads, `errors` are what a user sees, `workload` holds costs and progress.
`executors` run jobs on processes or clusters, `storage` copies inputs from URLs, `user_code`
runs functions of the user.
"""
