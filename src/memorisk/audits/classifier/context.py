"""What the scores alone do not tell of an audit."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Context:
    """What the scores alone do not tell: how the models were made and what was left out.

    Attributes:
        design: "balanced", "matched" or "paper".
        protocol: "corrected" or "paper".
        random_split: Canaries and test images come from one random split by group.
        not_auditable: Classes too small to split.
        n_validation: Images set aside for the user's own training.
        n_images: Images of the data set; None where only scores are known.
        n_skipped: Images that could not be read and were left out.
        n_missing: Rows and files of the source that are no images or have no file, and were left out.
        n_not_sampled: Images that a sample left out.
        model: The network.
        training: How it was trained.
        data_hash: Of ids, labels, groups and pixels.
        dataset: Name of the data set.
        versions: Of the libraries.
        device: Where the models were trained.
        weights_kept: Whether the run folder holds the trained weights.
        pseudonymised: Whether ids are keyed hashes.
        groups_given: The data say whose each image is; else every image stands for itself.
        notes: Sentences for the report.
        placebo: What the placebo showed.
        target: What the audit of the very model showed.
        privacy: Regime, promise and measured lower bound.
    """

    design: str
    protocol: str = "corrected"
    random_split: bool = True
    not_auditable: list[str] = field(default_factory=list)
    n_validation: int = 0
    n_images: int | None = None
    n_skipped: int = 0
    n_missing: int = 0
    n_not_sampled: int = 0
    model: str = "trained elsewhere"
    training: dict[str, Any] = field(default_factory=dict)
    data_hash: str = ""
    dataset: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    device: str = ""
    weights_kept: bool = False
    pseudonymised: bool = False
    groups_given: bool = True
    notes: list[str] = field(default_factory=list)
    placebo: dict[str, Any] | None = None
    target: dict[str, Any] | None = None
    privacy: dict[str, Any] | None = None
