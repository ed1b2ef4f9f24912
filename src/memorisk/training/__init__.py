"""Training: from options to weights and a checkpoint. It takes callbacks and knows no audit.

`run` holds what every ``memorisk train`` command does around its training. `engine` holds the loops: of epochs
(`epoch_training`, `loop`) and of steps (`step_loop`, for generators), with their checkpoints. Each of the other
packages trains one kind of network and declares its parts to them.
"""
