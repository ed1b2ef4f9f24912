"""ML Privacy Meter 1.0.1: attack P (`PopulationMetric`), the one of its attacks that memorisk has as well.

This release knows neither LiRA nor RMIA. A model that looks its losses up stands for the network.
"""

import contextlib
import io
from collections.abc import Callable

import numpy as np
from privacy_meter.audit import Audit
from privacy_meter.constants import InferenceGame
from privacy_meter.dataset import Dataset
from privacy_meter.hypothesis_test import linear_itp_threshold_func
from privacy_meter.information_source import InformationSource
from privacy_meter.information_source_signal import ModelLoss
from privacy_meter.metric import PopulationMetric
from privacy_meter.model import Model

Arrays = dict[str, np.ndarray]


class Losses(Model):
    """Losses by row."""

    def get_loss(self, batch_samples: np.ndarray, batch_labels: np.ndarray, per_point: bool = True) -> np.ndarray:
        """Of these rows."""
        return self.model_obj[batch_samples]

    def get_logits(self, batch_samples: np.ndarray) -> np.ndarray:
        """None are kept."""
        raise NotImplementedError

    get_grad = get_intermediate_outputs = get_rescaled_logits = get_logits


def prepare(data: Arrays) -> Callable[[], Arrays]:
    """Members and non-members of the target, and the population."""
    loss, member = -np.log(data["p"][0]), data["member"][0]
    n = len(loss)
    rows = {"train": np.flatnonzero(member), "test": np.flatnonzero(~member)}
    model = Losses(np.concatenate([loss, data["population_loss"]]), None)
    audited = Dataset({part: {"x": at, "y": at} for part, at in rows.items()}, "x", "y")
    at = n + np.arange(len(data["population_loss"]))
    population = Dataset({"train": {"x": at, "y": at}}, "x", "y")

    def run() -> Arrays:
        """The whole audit."""
        target, reference = InformationSource([model], [audited]), InformationSource([model], [population])
        metric = PopulationMetric(target, reference, [ModelLoss()], linear_itp_threshold_func)
        game = InferenceGame.PRIVACY_LOSS_MODEL
        with contextlib.redirect_stdout(io.StringIO()):
            audit = Audit(metric, game, target, reference, save_logs=False)
            audit.prepare()
            result = audit.run()[0][0]
        score = np.empty(n)
        score[np.concatenate([rows["train"], rows["test"]])] = -result.signal_values
        return {"score": score, "auc": np.array(result.roc_auc)}

    return run


CASES = {"attack_p": prepare}
