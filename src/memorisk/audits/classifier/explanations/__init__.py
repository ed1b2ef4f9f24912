"""`explain`: why an image is remembered. Start with `run`; `rarity` and `probes` are its two answers."""
