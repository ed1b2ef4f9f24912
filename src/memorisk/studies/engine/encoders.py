"""Encoders that benchmarks compare: the names that users give them, and what a report says of their features."""

from dataclasses import asdict
from typing import Any

from memorisk.models.encoders.feature_sources import FeatureSource
from memorisk.runs.errors import InputError, one_line
from memorisk.training.features.matrix import Features


def shown_name(source: FeatureSource) -> str:
    """Return the name of an encoder for tables, without its kind.

    Args:
        source: Source of the features.
    """
    return source.shown.removeprefix("detector:").removeprefix("timm:").removeprefix("transformers:")


def refuse_saved(source: FeatureSource, name: str) -> None:
    """Refuse features that are computed already: those of copies would be missing.

    Args:
        source: Source of the features.
        name: Name for the message.

    Raises:
        InputError: The features are saved ones.
    """
    if source.kind == "saved":
        raise InputError(
            f"{one_line(name, 80)} holds features that are computed already, and copies need theirs: name what "
            "computes them, as in resnet50@FILE"
        )


def refuse_not_finite(features: Features, what: str) -> None:
    """Refuse features that are not finite.

    Args:
        features: Features of images.
        what: Plural of what they are features of.

    Raises:
        InputError: Some features are not finite.
    """
    if bad := len(features.checks.not_finite):
        raise InputError(f"the features of {bad:,} of {len(features):,} {what} are not finite")


def features_description(features: Features, *, with_rows: bool = True) -> dict[str, Any]:
    """Describe features for a report, without ids.

    Args:
        features: Features of images.
        with_rows: Whether images with features of one number are counted, too.
    """
    described, checks = features.described, features.checks
    of_images = checks.sentences(features.ids, described.dimension)
    notes = [note for note in described.notes if note not in of_images]
    if with_rows and len(checks.constant_rows):
        notes.append(f"{len(checks.constant_rows):,} images are one number throughout.")
    if len(checks.constant_columns):
        notes.append(f"{len(checks.constant_columns):,} of {described.dimension:,} features are one number throughout.")
    return asdict(described) | {"notes": notes}
