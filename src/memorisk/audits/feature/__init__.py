"""Does a model remember a mark that it saw once (paper 002)? Start with `run`, then `verdict`."""
