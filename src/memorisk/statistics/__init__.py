"""Statistics: numbers about many images, with null and interval. Arrays in, frozen dataclasses out, no files, no torch.

Start with `intervals` (means, shares), `jackknife` and `randomization` (nulls); `verdicts` draws the conclusions.
`privacy_accounting` and `epsilon` are differential privacy; `exchangeability` checks that parts are a random split.

Arrays may be lists, tables' columns or anything that NumPy takes. Functions that draw at random take a ``seed``.
"""

from memorisk.runs.public_names import lazy_names

MODULES = {
    "intervals": "two_way_interval these_groups_interval difference_interval clopper_pearson paired_share_difference",
    "multiple_testing": "benjamini_hochberg benjamini_yekutieli holm",
    "roc": "auc roc_curve tpr_at_fpr auc_jackknife",
    "rank_statistics": "spearman sign_test mann_whitney",
    "effect_sizes": "cohens_d paired_dz",
    "epsilon": "epsilon_bound group_epsilon replace_one_epsilon",
    "privacy_accounting": "rdp_epsilon noise_for_epsilon",
    "exchangeability": "neighbour_test image_counts",
}
"""Names that this package exports, by their modules."""

__getattr__, __dir__, __all__ = lazy_names(__name__, MODULES)  # pyright: ignore[reportUnsupportedDunderAll]
