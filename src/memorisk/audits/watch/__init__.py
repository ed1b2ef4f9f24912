"""Does a generator begin to memorize while it trains? METHODS section 5, applied in the middle of a training.

Start with `memorization_watch.MemorizationWatch`, which every training loop can call; `run` is `memorisk watch`.
An evaluation (logged by `evaluations`) compares drawn images (`drawn_images`) with `real_images` by `measurements`;
`result` holds what was seen, `verdict` the stopping rule, `training_outputs` what a training leaves to evaluate.
"""
