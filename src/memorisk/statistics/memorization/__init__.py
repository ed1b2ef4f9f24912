"""Gaps of twins, their nulls and intervals. Start with `nulls`; `rarity` and `probes` explain who is remembered."""
