"""The page for the data-protection officer: `page` lays it out, of `findings`, `appendix` and `words`."""
