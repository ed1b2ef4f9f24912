"""`bench defences`: what training regimes change. Start with `run`."""
