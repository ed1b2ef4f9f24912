"""Names of the features of an explanation, checked before anything heavy is loaded."""

from collections.abc import Sequence
from pathlib import Path

from memorisk.audits.classifier.explanations.result import BEFORE
from memorisk.models.encoders.feature_sources import check_feature_network, is_feature_file
from memorisk.runs.errors import InputError, one_line


def check_features(
    features: Sequence[str | Path], weights: str | Path | None, size: int | None = None, permutations: int = 1
) -> list[str]:
    """Return the names of the feature spaces, each once; what can be refused without a run is refused.

    Args:
        features: Feature spaces; these and the other arguments are those of `explain`.
        weights: Weights of the named networks.
        size: Pixels a side that named networks get.
        permutations: Random permutations behind each p-value.

    Raises:
        InputError: A network or file does not exist, or weights or a size are missing or of no use.
    """
    if permutations < 1:
        raise InputError(f"permutations is {permutations}; at least 1 is needed")
    spaces = list(dict.fromkeys(str(f) for f in ([features] if isinstance(features, str | Path) else features)))
    if not spaces:
        raise InputError("no features are named: name a network, a file, or 'before' for the run's own network")
    for space in spaces:
        if is_feature_file(space) and not Path(space).is_file():
            raise InputError(f"feature file {one_line(space)} does not exist")
    if len({space_label(s) for s in spaces}) < len(spaces):
        raise InputError("two feature files have the same name: rename one, since the results carry that name")
    named = [s for s in spaces if is_named_network(s)]
    if (weights is not None or size is not None) and not named:
        option = "--feature-weights" if weights is not None else "--feature-size"
        raise InputError(f"{option} is for a named network, and --features names none: leave it out")
    if weights not in (None, "default", "none") and len(named) > 1:
        raise InputError(f"--feature-weights is one network's, and {', '.join(named)} are named: look at one at a time")
    for name in named:
        check_feature_network(name, weights)
    return spaces


def space_label(space: str) -> str:
    """Name a feature space: a file by its name alone, since its folder may name people."""
    return Path(space).name if is_feature_file(space) else space


def is_named_network(space: str) -> bool:
    """Say whether a feature space is that of a network that is named."""
    return space != BEFORE and not is_feature_file(space)
