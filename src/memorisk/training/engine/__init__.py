"""The parts that all trainings share. Start with `epoch_training`: what a kind of network declares, and its run.

`loop` holds epochs, checkpoints and the best epoch, `step_loop` the trainings that count steps, `optimization` losses,
optimisers and the order of images. `pixels` brings images to the network, `devices` sets precision, threads and random
generators, `predict` runs a trained network.
"""
