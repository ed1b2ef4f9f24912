"""What every training shares: the loop, the order of images, optimizers, checkpoints, jobs.

Start with `fit`, which trains one network, and `loop`, which it runs. `jobs` trains many, `stacked` several at once.
"""
