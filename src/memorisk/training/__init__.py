"""Training: from options to weights and a checkpoint. It takes callbacks and knows no audit.

`run` holds the steps that every ``memorisk train`` command takes around its training. `engine` holds the loop that
trains one network, with its checkpoints; generators have loops of their own and share the checkpoints. Each of the
other packages trains one kind of network.
"""
