"""A network that is only asked: images in, probabilities out, whatever it is made of.

Each kind of model (`models.blackbox.torch_module`, `models.blackbox.onnx`, `models.blackbox.exported`) gives an
`Answerer`; `AskedNetwork` asserts the declared preprocessing, turns answers into probabilities, and proves once, on
noise, that an image's answer does not depend on chance or on the images beside it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from memorisk.models.blackbox.outputs import OutputReader
from memorisk.models.blackbox.preprocessing import Preprocessing
from memorisk.runs.errors import InputError, one_line

Ask = Callable[[np.ndarray], np.ndarray]
"""[n, C, H, W] float32 -> [n, K], as the network gives it."""

PROBES = 6
"""Images of noise that are asked once a model is loaded."""

STEADY = 0.02
"""How far an answer may move, as a share of the largest, when other images stand beside it (int8 files round so)."""


class Predictor(Protocol):
    """What an audit asks of a model."""

    @property
    def name(self) -> str:
        """What the report calls it."""
        ...

    @property
    def n_classes(self) -> int | None:
        """Classes, where they are known."""
        ...

    def probabilities(self, x: np.ndarray) -> np.ndarray:
        """[n, C, H, W] float32, preprocessed -> [n, K] float64, rows that sum to 1."""
        ...

    def describe(self) -> dict[str, Any]:
        """Kind, file, network, preprocessing, output; no absolute paths."""
        ...


@dataclass(frozen=True)
class Answerer:
    """A loaded model of any kind, before its answers are understood."""

    name: str
    """What the user calls it: a file's name, ``module:function``, a network's name."""

    ask: Ask
    """Answers of a batch of any size."""

    facts: dict[str, Any]
    """For `AskedNetwork.describe`: kind, fingerprint, and what was found or done."""

    passes: tuple[type[BaseException], ...] = field(default=(MemoryError, KeyboardInterrupt))
    """Errors that are not the model's and that a caller may answer, as by smaller batches."""


class AskedNetwork:
    """A `Predictor` around an `Answerer`.

    Args:
        source: The loaded model.
        preprocessing: Asserted at every call.
        output: "auto", "logits" or "probabilities", as for `OutputReader`.
        num_classes: How many the user says there are; None if unknown.

    Raises:
        InputError: The model cannot take such images, gives no [n, K], gives another number of classes than
            ``num_classes``, or answers by chance or by the batch.
    """

    def __init__(
        self, source: Answerer, preprocessing: Preprocessing, output: str = "auto", num_classes: int | None = None
    ) -> None:
        self.name = source.name
        self.preprocessing = preprocessing
        self._source = source
        self._reader = OutputReader(source.name, output)
        self._probe()
        if num_classes is not None and self.n_classes != num_classes:
            raise InputError(f"{one_line(self.name, 80)} gives {self.n_classes} classes, not {num_classes} as declared")

    @property
    def n_classes(self) -> int | None:
        """Columns of the probabilities."""
        return self._reader.n_classes

    def probabilities(self, x: np.ndarray) -> np.ndarray:
        """Probabilities of a batch.

        Args:
            x: [n, C, H, W] float32, as the declared preprocessing gives it.

        Returns:
            [n, K] float64, rows that sum to 1.

        Raises:
            InputError: Another shape or type than declared, or answers that `OutputReader.read` refuses.
        """
        self.preprocessing.check(x)
        if not len(x):
            return np.zeros((0, self.n_classes or 0))
        return self._reader.read(self._answers(x))

    def describe(self) -> dict[str, Any]:
        """What the model is, what it was found to give, and the preprocessing; no absolute paths."""
        return {
            "name": one_line(self.name, 120),
            **self._source.facts,
            "output": self._reader.kind,
            "output_decided": self._reader.decided,
            "classes": self.n_classes,
            "columns": self._reader.columns,
            "preprocessing": self.preprocessing.describe(),
        }

    def _answers(self, x: np.ndarray) -> np.ndarray:
        try:
            raw = self._source.ask(np.array(x))  # a copy: a network may change its input in place
        except (InputError, *self._source.passes):
            raise
        except Exception as error:  # the network is the user's: anything may go wrong in it
            raise InputError(
                f"{one_line(self.name, 80)} failed on a batch {list(x.shape)}: {type(error).__name__}: "
                f"{one_line(error, 200)}; check that it takes images of the declared size, with any number in a batch"
            ) from error
        raw = np.asarray(raw)
        if raw.ndim and len(raw) != len(x):
            raise InputError(
                f"{one_line(self.name, 80)} gives answers of shape {list(raw.shape)} for {len(x)} images; it must give "
                "[n, classes], a row an image"
            )
        return raw

    def _probe(self) -> None:
        """Ask noise: decides the output, and shows dropout and batch statistics that were left on."""
        shape = (PROBES, *self.preprocessing.size, self.preprocessing.channels)
        noise = np.random.default_rng(0).random(shape, dtype=np.float32)
        noise *= np.linspace(0.1, 1, PROBES, dtype=np.float32)[:, None, None, None]
        x = self.preprocessing.apply(noise)
        raw = self._answers(x)
        self._reader.read(raw)
        again = self._answers(np.ascontiguousarray(x[1::2]))
        self._reader.read(again)
        moved = float(np.abs(again.astype(np.float64) - raw[1::2]).max())
        if moved > STEADY * float(np.abs(raw).max()):
            raise InputError(
                f"{one_line(self.name, 80)} gives the same image other answers beside other images (they move by "
                f"{moved:.2g}): dropout or batch statistics are on; put it in evaluation mode, or export it so"
            )


def ask_in_batches(ask: Ask, x: np.ndarray, low: int, high: int | None) -> np.ndarray:
    """Ask a network that only takes batches of ``low`` to ``high`` images; the last image is repeated to fill up.

    Args:
        ask: Of a batch of an allowed size.
        x: [n, C, H, W], n at least 1.
        low: Fewest images in a batch.
        high: Most, None without a limit.

    Returns:
        [n, K].

    Raises:
        ValueError: The network does not give a row an image.
    """
    parts = []
    for start in range(0, len(x), high or len(x)):
        part = x[start : start + (high or len(x))]
        missing = low - len(part)
        if missing > 0:
            part = np.concatenate([part, np.repeat(part[-1:], missing, axis=0)])
        answers = np.asarray(ask(part))
        if answers.ndim == 0 or len(answers) != len(part):
            raise ValueError(f"answers of shape {list(answers.shape)} for a batch of {len(part)}")
        parts.append(answers[: len(answers) - max(missing, 0)])
    return np.concatenate(parts)
