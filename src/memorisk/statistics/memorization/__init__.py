"""Gaps of twins and their nulls (paper 000). Start with `nulls`.

`rarity`, `rarity_models` and `probes` explain who is remembered and where.
`mark_rank` and `mark_contrasts` are about marks (paper 002).
"""
