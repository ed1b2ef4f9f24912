"""Networks that give features of images: `feature_sources` reads their names, `networks` builds them.

`transformers` opens networks of the transformers library.
"""
