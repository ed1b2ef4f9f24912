"""Statistics: numbers about many images, with null and interval. Arrays in, frozen dataclasses out, no files, no torch.

Start with `intervals` (means, shares), `jackknife` and `randomization` (nulls); `verdicts` draws the conclusions.
`privacy` is differential privacy; `exchangeability` checks that parts are a random split.

Arrays may be lists, tables' columns or anything that NumPy takes. Functions that draw at random take a ``seed``.
"""

from memorisk.runs.public_names import lazy_names

MODULES = {
    "intervals.means": "two_way_interval these_groups_interval difference_interval paired_share_difference",
    "intervals.shares": "clopper_pearson",
    "multiple_testing.lists": "benjamini_hochberg benjamini_yekutieli holm",
    "roc": "auc roc_curve tpr_at_fpr auc_jackknife",
    "rank_correlation": "spearman",
    "rank_tests": "sign_test mann_whitney",
    "effect_sizes": "cohens_d paired_dz",
    "privacy.measured_epsilon": "epsilon_bound",
    "privacy.patient_epsilon": "group_epsilon replace_one_epsilon",
    "privacy.accounting": "rdp_epsilon noise_for_epsilon",
    "exchangeability.neighbours": "neighbour_test",
    "exchangeability.image_numbers": "image_counts",
}
"""Names that this package exports, by their modules."""

__getattr__, __dir__, __all__ = lazy_names(__name__, MODULES)  # pyright: ignore[reportUnsupportedDunderAll]
