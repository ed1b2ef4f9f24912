"""Training: from options to weights and a checkpoint. It takes callbacks and knows no audit.

`run` is what every ``memorisk train`` does around its training, `engine` the loop that all trainings share; each of the
other packages trains one kind of network.
"""
