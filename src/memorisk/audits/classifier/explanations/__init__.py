"""`explain`: why an image is remembered. Start with `run` (atypicality); `probes` looks into the layers.

`page` is the report. `influence` writes the page of the most self-influential images.
"""
