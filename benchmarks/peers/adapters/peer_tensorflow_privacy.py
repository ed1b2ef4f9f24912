"""TensorFlow Privacy: `compute_score_lira` of tensorflow-empirical-privacy; negated, as members get small scores."""

from collections.abc import Callable
from functools import partial

import numpy as np
from tensorflow_privacy.privacy.privacy_tests.membership_inference_attack.advanced_mia import compute_score_lira

Arrays = dict[str, np.ndarray]


def prepare(data: Arrays, **options: object) -> Callable[[], Arrays]:
    """The references as it takes them: of every image an array [models, augmentations]."""
    phi, saw = data["phi"], data["member"][1:]
    n = phi.shape[1]
    target = phi[0][:, None]
    stat_in = [phi[1:][saw[:, i], i][:, None] for i in range(n)]
    stat_out = [phi[1:][~saw[:, i], i][:, None] for i in range(n)]
    return lambda: {"score": -compute_score_lira(target, stat_in, stat_out, **options)}


CASES = {
    "lira_online": partial(prepare, median_or_mean="mean"),
    "lira_online_median": partial(prepare, median_or_mean="median"),
    "lira_online_fixed": partial(prepare, median_or_mean="mean", fix_variance=True),
    "lira_offline": partial(prepare, median_or_mean="mean", option="out"),
}
