"""torch-fidelity 0.4.0: FID, KID and precision and recall from features."""

from collections.abc import Callable

import numpy as np
import torch
from torch_fidelity.metric_fid import fid_features_to_statistics, fid_statistics_to_metric
from torch_fidelity.metric_kid import kid_features_to_metric
from torch_fidelity.metric_prc import prc_features_to_metric

Arrays = dict[str, np.ndarray]


def fid(data: Arrays) -> Callable[[], Arrays]:
    """By the eigenvalues of the product of covariances."""
    real, synthetic = torch.from_numpy(data["real"]), torch.from_numpy(data["synthetic"])

    def run() -> Arrays:
        """Statistics included."""
        sides = [fid_features_to_statistics(side) for side in (synthetic, real)]
        return {"values": np.array(list(fid_statistics_to_metric(*sides, verbose=False).values()))}

    return run


def kid(data: Arrays) -> Callable[[], Arrays]:
    """Mean and deviation over random subsets."""
    real, synthetic = torch.from_numpy(data["real"]), torch.from_numpy(data["synthetic"])
    size = int(len(real) // 2)
    options = {"kid_subsets": 20, "kid_subset_size": size, "verbose": False}
    return lambda: {"values": np.array(list(kid_features_to_metric(synthetic, real, **options).values()))}


def prc(data: Arrays) -> Callable[[], Arrays]:
    """Precision and recall at three neighbours."""
    real, synthetic = torch.from_numpy(data["real"]), torch.from_numpy(data["synthetic"])

    def run() -> Arrays:
        """Both."""
        found = prc_features_to_metric(synthetic, real, verbose=False)
        return {"values": np.array([found["precision"], found["recall"]])}

    return run


CASES = {"fid": fid, "kid": kid, "precision_recall": prc}
