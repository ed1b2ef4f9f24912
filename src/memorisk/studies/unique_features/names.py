"""Networks and regularisers as paper 002 calls them."""

from memorisk.studies.unique_features.config import PLAIN
from memorisk.studies.unique_features.plan import Arm

NETWORKS = {"mlp1": "MLP-1", "cnn1": "CNN-1", "cnn2": "CNN-2", "densenet100": "DenseNet"}
KINDS = {"dropout": "Dropout", "augmentation": "Data Augmentation", "batch_norm": "Batch Normalisation", PLAIN: "none"}


def arm_columns(arm: Arm) -> dict[str, str]:
    """The columns that name an arm."""
    return {"dataset": arm.dataset, "network": network_words(arm.network), "regulariser": regulariser_words(arm)}


def network_words(network: str) -> str:
    """A network as the paper calls it."""
    return NETWORKS.get(network, network)


def regulariser_words(arm: Arm) -> str:
    """A regulariser as the paper calls it: "Dropout & Data Augmentation"."""
    return " & ".join(KINDS.get(part, part) for part in arm.regulariser.split("+"))
