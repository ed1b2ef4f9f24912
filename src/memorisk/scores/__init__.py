"""Scores: one number per image or per pair. Arrays in, arrays out; nothing is drawn or modelled here.

Start with `memorization` (M) and `twin_attacks`; `lira` and `rmia` are attacks with reference models, `marks` is
M_w. `influence` is self-influence, `distances` and `pairs` search all pairs exactly, `similarity` wraps both in one
interface.

Arrays may be lists, tables' columns or anything that NumPy takes. Functions that draw at random take a ``seed``.
"""

from memorisk.runs.public_names import lazy_names

MODULES = {
    "memorization": "cross_entropy binary_cross_entropy logit_margin group_table feldman_zhang",
    "twin_attacks": "attack_scores attack_spec",
    "lira": "lira_scores twin_references",
    "rmia": "rmia_scores split_population",
    "marks": "kl_divergence mean_log_kl paper_score white_box_score",
    "atypicality": "pairwise_atypicality centroid_atypicality",
}
"""Names that this package exports, by their modules."""

__getattr__, __dir__, __all__ = lazy_names(__name__, MODULES)  # pyright: ignore[reportUnsupportedDunderAll]
