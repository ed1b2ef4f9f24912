"""A network's answers as probabilities: whether they are logits is decided once and never changes."""

from typing import Literal

import numpy as np

from memorisk.runs.errors import InputError, one_line

Output = Literal["auto", "logits", "probabilities"]
OUTPUTS: tuple[Output, ...] = ("auto", "logits", "probabilities")

SURE = 1e-4
"""How near to 1 rows must sum for ``auto`` to take them as probabilities."""

ALLOWED = 1e-3
"""How far from 1 the rows of declared probabilities may sum; they are then divided by their sum."""


class OutputReader:
    """Turns answers [n, K] into probabilities, the same way for every batch.

    One column is a binary network's (its sigmoid, or the logit of it): it becomes two, the class "no" first.

    Args:
        name: Of the network or file, for the errors.
        output: What the answers are; with "auto" the first batch that is read decides.

    Raises:
        InputError: For another word than the three.
    """

    def __init__(self, name: str, output: str = "auto") -> None:
        if output not in OUTPUTS:
            raise InputError(f"output is {one_line(output, 40)!r}; it must be one of {', '.join(OUTPUTS)}")
        self.name = one_line(name, 80)
        self.kind = None if output == "auto" else output
        self.decided = "declared" if self.kind else ""
        self.columns: int | None = None

    @property
    def n_classes(self) -> int | None:
        """Columns of the probabilities; None before the first batch."""
        return None if self.columns is None else max(self.columns, 2)

    def read(self, raw: np.ndarray) -> np.ndarray:
        """Probabilities of a batch.

        Args:
            raw: [n, K] answers of the network, K = 1 for a sigmoid.

        Returns:
            [n, K] float64, at least two columns, rows that sum to 1.

        Raises:
            InputError: Another rank or type, NaN or infinite values, another K than before, or values that cannot be
                what the answers were taken for.
        """
        raw = self._checked(raw)
        if self.kind is None and len(raw):
            self.kind = self._decide(raw)
            self.decided = f"from the first {len(raw)} answers"
        values = raw.astype(np.float64)
        if self.kind == "probabilities":
            return self._normalised(values)
        if self.columns == 1:
            values = np.concatenate([np.zeros_like(values), values], axis=1)
        values -= values.max(axis=1, keepdims=True)
        np.exp(values, out=values)
        values /= values.sum(axis=1, keepdims=True)
        return values

    def _checked(self, raw: np.ndarray) -> np.ndarray:
        if raw.ndim != 2 or raw.shape[1] < 1:
            raise InputError(
                f"{self.name} gives answers of shape {list(raw.shape)}; they must be [n, classes], or [n, 1] of a "
                "binary network"
            )
        if raw.dtype.kind != "f":
            raise InputError(
                f"{self.name} gives {raw.dtype} answers; they must be floating-point logits or probabilities of each "
                "class, not labels"
            )
        if not np.isfinite(raw).all():
            bad = int((~np.isfinite(raw)).any(axis=1).sum())
            raise InputError(
                f"{self.name} gives NaN or infinite values for {bad} of {len(raw)} images: check its weights, the "
                "declared preprocessing, and half precision"
            )
        if self.columns is None:
            self.columns = raw.shape[1]
        if raw.shape[1] != self.columns:
            raise InputError(f"{self.name} gives {raw.shape[1]} classes, and gave {self.columns} before")
        return raw

    def _decide(self, raw: np.ndarray) -> Output:
        """Logits or probabilities; refused where neither is plain."""
        inside = bool((raw >= 0).all() and (raw <= 1).all())
        if not inside:
            return "logits"
        if self.columns == 1:
            return "probabilities"
        off = np.abs(raw.sum(axis=1, dtype=np.float64) - 1).max()
        if off <= SURE:
            return "probabilities"
        raise InputError(
            f"{self.name} gives values in [0, 1] whose rows miss 1 by up to {off:.2g}: they may be rounded "
            "probabilities, one sigmoid a class, or logits; give output, probabilities or logits"
        )

    def _normalised(self, values: np.ndarray) -> np.ndarray:
        way_out = "" if self.decided == "declared" else f" (taken for probabilities {self.decided})"
        low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
        if low < 0 or (self.columns == 1 and high > 1):
            raise InputError(
                f"{self.name} gives probabilities{way_out} from {low:.3g} to {high:.3g}; they must lie in [0, 1]: give "
                "logits as output if that is what they are"
            )
        if self.columns == 1:
            return np.concatenate([1 - values, values], axis=1)
        sums = values.sum(axis=1, keepdims=True)
        off = np.abs(sums - 1).max(initial=0.0)
        if off > ALLOWED:
            raise InputError(
                f"{self.name} gives probabilities{way_out} whose rows miss 1 by up to {off:.2g}, more than "
                f"{ALLOWED:g}: give logits as output if that is what they are"
            )
        return values / sums
