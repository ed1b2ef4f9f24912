"""The parts that all trainings share. Start with `loop`: epochs, checkpoints, the choice of the best epoch.

`optimization` holds losses, optimisers and the order of images, `pixels` brings images to the network, `devices` sets
precision, threads and random generators, `predict` runs a trained network.
"""
