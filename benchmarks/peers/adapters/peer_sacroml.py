"""SACRO-ML 2.0.1: the scores of its LiRA from the confidences of shadow models.

Its public entry trains the shadow models itself; what is called here, `LIRAAttack._compute_scores`, is what that entry
calls when they are trained, with the logits that its own `utils.logit` makes of probabilities. For every image it also
tests whether the references are normal (Shapiro and Wilk), which is part of its time.
"""

import logging
from collections.abc import Callable
from functools import partial

import numpy as np
from sacroml.attacks import utils
from sacroml.attacks.likelihood_attack import LIRAAttack

Arrays = dict[str, np.ndarray]


def prepare(data: Arrays, mode: str, fix_variance: bool) -> Callable[[], Arrays]:
    """The references as the lists that the attack gathers."""
    logging.disable()
    attack = LIRAAttack(write_report=False, mode=mode, fix_variance=fix_variance)
    n = data["member"].shape[1]
    logits = np.vectorize(utils.logit)(data["p"][1:])
    saw = data["member"][1:]
    conf_in = {i: list(logits[saw[:, i], i]) for i in range(n)}
    conf_out = {i: list(logits[~saw[:, i], i]) for i in range(n)}
    predictions = data["shares"][0]

    def run() -> Arrays:
        """The scores; the second of each pair is what its metrics take for the member's."""
        scores, _ = attack._compute_scores(data["labels"], predictions, conf_out, conf_in)
        return {"score": np.array(scores)[:, 1]}

    return run


CASES = {
    "lira_online": partial(prepare, mode="online-carlini", fix_variance=False),
    "lira_online_fixed": partial(prepare, mode="online-carlini", fix_variance=True),
    "lira_offline": partial(prepare, mode="offline", fix_variance=False),
}
