"""Black-box model: it is loaded once and queried in batches, and its answers are converted to probabilities.

Each kind of model (`models.blackbox.torch_models`, `models.blackbox.onnx`) gives a `BlackBoxModel`; the user's text
says which kind it is. `BlackBoxPredictor` asserts the declared preprocessing, turns answers into probabilities, and
proves once, on noise, that an image's answer does not depend on chance or on the other images of its batch. Whether
answers are logits is decided once and never changes.
"""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from memorisk.models.blackbox.preprocessing import Preprocessing
from memorisk.runs.errors import InputError, one_line

Output = Literal["auto", "logits", "probabilities"]
OUTPUTS: tuple[Output, ...] = ("auto", "logits", "probabilities")

AUTO_TOLERANCE = 1e-4
"""Largest distance of row sums from 1 at which ``auto`` takes rows as probabilities."""

SUM_TOLERANCE = 1e-3
"""Largest distance of row sums from 1 for declared probabilities; rows are then divided by their sum."""
N_PROBE_IMAGES = 6
"""Number of images of noise that a model answers once it is loaded."""
STABILITY_TOLERANCE = 0.02
"""Largest change of an answer, as a share of the largest, when the batch holds other images (int8 files round so)."""
WEIGHTS_ALONE = (".pt", ".pth", ".ckpt", ".th", ".bin", ".safetensors", ".pkl", ".pickle", ".joblib")
"""Files that hold weights without a network, or a network only as code that loading would run."""
_KINDS = "module:function, a network's name with weights, or an .onnx file"


class OutputReader:
    """Turns answers [n, K] into probabilities, the same way for every batch.

    One column is a binary network's (its sigmoid, or the logit of it): it becomes two, the class "no" first.

    Args:
        name: Name of the network or file, for error messages.
        output: Kind of the answers; with "auto" the first batch that is read decides.

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
        """Number of columns of the probabilities; None before the first batch."""
        return None if self.columns is None else max(self.columns, 2)

    def read(self, raw: np.ndarray) -> np.ndarray:
        """Return the probabilities of a batch.

        Args:
            raw: Answers of the network, [n, K], K = 1 for a sigmoid.

        Returns:
            Probabilities, float64 [n, K], at least two columns, rows that sum to 1.

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
        """Return whether answers are logits or probabilities; refuse them where neither is plain."""
        inside = bool((raw >= 0).all() and (raw <= 1).all())
        if not inside:
            return "logits"
        if self.columns == 1:
            return "probabilities"
        off = np.abs(raw.sum(axis=1, dtype=np.float64) - 1).max()
        if off <= AUTO_TOLERANCE:
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
        if off > SUM_TOLERANCE:
            raise InputError(
                f"{self.name} gives probabilities{way_out} whose rows miss 1 by up to {off:.2g}, more than "
                f"{SUM_TOLERANCE:g}: give logits as output if that is what they are"
            )
        return values / sums


BatchFunction = Callable[[np.ndarray], np.ndarray]
"""Function from a batch, float32 [n, C, H, W], to [n, K], as the network gives it."""


class Predictor(Protocol):
    """Model as an audit queries it."""

    @property
    def name(self) -> str:
        """Name the model in the report."""
        ...

    @property
    def n_classes(self) -> int | None:
        """Number of classes, where it is known."""
        ...

    def probabilities(self, x: np.ndarray) -> np.ndarray:
        """Return probabilities, float64 [n, K], rows that sum to 1, of preprocessed images, float32 [n, C, H, W]."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return the kind, file, network, preprocessing, output; no absolute paths."""
        ...


@dataclass(frozen=True)
class BlackBoxModel:
    """A loaded model of any kind, before its answers are understood."""

    name: str
    """Name as the user has it: a file's name, ``module:function``, a network's name."""

    ask: BatchFunction
    """Answers of a batch of any size."""

    facts: dict[str, Any]
    """Facts for `BlackBoxPredictor.describe`: kind, fingerprint, and what was found or done."""

    passes: tuple[type[BaseException], ...] = field(default=(MemoryError, KeyboardInterrupt))
    """Errors that are not the model's and that a caller may answer, as by smaller batches."""


class BlackBoxPredictor:
    """A `Predictor` around an `BlackBoxModel`.

    Args:
        source: The loaded model.
        preprocessing: Preprocessing of the images, asserted at every call.
        output: "auto", "logits" or "probabilities", as for `OutputReader`.
        num_classes: Number of classes that the user states; None if unknown.

    Raises:
        InputError: The model cannot take such images, gives no [n, K], gives another number of classes than
            ``num_classes``, or answers by chance or by the batch.
    """

    def __init__(
        self, source: BlackBoxModel, preprocessing: Preprocessing, output: str = "auto", num_classes: int | None = None
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
        """Number of columns of the probabilities."""
        return self._reader.n_classes

    def probabilities(self, x: np.ndarray) -> np.ndarray:
        """Return the probabilities of a batch.

        Args:
            x: Batch, float32 [n, C, H, W], as the declared preprocessing gives it.

        Returns:
            Probabilities, float64 [n, K], rows that sum to 1.

        Raises:
            InputError: Another shape or type than declared, or answers that `OutputReader.read` refuses.
        """
        self.preprocessing.check(x)
        if not len(x):
            return np.zeros((0, self.n_classes or 0))
        return self._reader.read(self._answers(x))

    def describe(self) -> dict[str, Any]:
        """Describe the model, its checked properties and the preprocessing; no absolute paths."""
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
        except (Exception, SystemExit) as error:  # the network is the user's: anything may go wrong in it
            raise InputError(
                f"{one_line(self.name, 80)} failed on a batch {list(x.shape)}: {type(error).__name__}: "
                f"{one_line(error, 200)}; check that it takes images of the declared size, with any number in a batch"
            ) from error
        raw = np.asarray(raw)
        if raw.ndim and len(raw) != len(x):
            raise InputError(
                f"{one_line(self.name, 80)} gives answers of shape {list(raw.shape)} for {len(x)} images; it must give "
                "[n, classes], one row per image"
            )
        return raw

    def _probe(self) -> None:
        """Ask noise: decides the output, and shows dropout and batch statistics that were left on."""
        shape = (N_PROBE_IMAGES, *self.preprocessing.size, self.preprocessing.channels)
        noise = np.random.default_rng(0).random(shape, dtype=np.float32)
        noise *= np.linspace(0.1, 1, N_PROBE_IMAGES, dtype=np.float32)[:, None, None, None]
        x = self.preprocessing.apply(noise)
        raw = self._answers(x)
        self._reader.read(raw)
        again = self._answers(np.ascontiguousarray(x[1::2]))
        self._reader.read(again)
        moved = float(np.abs(again.astype(np.float64) - raw[1::2]).max())
        if moved > STABILITY_TOLERANCE * float(np.abs(raw).max()):
            raise InputError(
                f"{one_line(self.name, 80)} gives the same image other answers in other batches (they move by "
                f"{moved:.2g}): dropout or batch statistics are on; put it in evaluation mode, or export it so"
            )


def predict_in_batches(ask: BatchFunction, x: np.ndarray, size: int) -> np.ndarray:
    """Ask a network that only takes batches of one size; the last image is repeated to fill up.

    Args:
        ask: Function that answers a batch of that size.
        x: Images, [n, C, H, W], n at least 1.
        size: Images of a batch.

    Returns:
        Answers of the network, [n, K].

    Raises:
        ValueError: The network does not give one row per image.
    """
    parts = []
    for start in range(0, len(x), size):
        part = x[start : start + size]
        missing = size - len(part)
        part = np.concatenate([part, np.repeat(part[-1:], missing, axis=0)])
        answers = np.asarray(ask(part))
        if answers.ndim == 0 or len(answers) != size:
            raise ValueError(f"answers of shape {list(answers.shape)} for a batch of {size}")
        parts.append(answers[: size - missing])
    return np.concatenate(parts)


def load_predictor(
    model: str | Path,
    *,
    preprocessing: Preprocessing,
    weights: str | Path | None = None,
    num_classes: int | None = None,
    output: str = "auto",
    device: str = "cpu",
    threads: int | None = None,
    python_path: Sequence[str | Path] = (),
) -> Predictor:
    """Load a model for an audit; nothing is downloaded, and no code is run but ``module:function``.

    Args:
        model: ``module:function`` (takes nothing, returns a module or a callable), an ``.onnx`` file, or a
            network's name as for `memorisk.models.classifiers.zoo.create_model`.
        preprocessing: Preprocessing that the model was trained with; asserted at every call.
        weights: The file of a network given by name; nothing else takes one.
        num_classes: Number of classes, checked against the model's answers; None if unknown.
        output: Kind of the model's answers: "logits", "probabilities", or "auto" to decide once by answers to noise.
        device: "cpu", "cuda" or "cuda:1".
        threads: Number of threads to compute on; None for the libraries' own number.
        python_path: Folders in which the module of ``module:function`` is looked for, after everything installed.

    Returns:
        The predictor; its ``probabilities`` takes [n, C, H, W] float32 from ``preprocessing.apply``.

    Raises:
        InputError: The model cannot be loaded, does not fit the preprocessing, or gives no classes.
    """
    if output not in OUTPUTS:
        raise InputError(f"output is {one_line(output, 40)!r}; it must be one of {', '.join(OUTPUTS)}")
    if threads is not None and threads < 1:
        raise InputError(f"threads is {threads}; it must be 1 or more")
    if num_classes is not None and num_classes < 2:
        raise InputError(f"num_classes is {num_classes}; it must be 2 or more")
    source = _open(model, preprocessing, weights, num_classes, device, threads, python_path)
    return BlackBoxPredictor(source, preprocessing, output, num_classes)


def _open(
    model: str | Path,
    preprocessing: Preprocessing,
    weights: str | Path | None,
    num_classes: int | None,
    device: str,
    threads: int | None,
    python_path: Sequence[str | Path],
) -> BlackBoxModel:
    """Return the object that answers for the given model."""
    text, suffix = str(model), Path(model).suffix.lower()
    own = isinstance(model, str) and ":" in text and not text.startswith("timm:") and not Path(text).exists()
    if weights is not None and (own or suffix == ".onnx"):
        raise InputError(
            f"{one_line(text, 80)} holds its own weights: leave {one_line(weights, 80)} out, or give a network's name"
        )
    if suffix == ".onnx":
        from memorisk.models.blackbox.onnx import open_onnx

        return open_onnx(_file(text), preprocessing, device, threads)
    if own:
        from memorisk.models.blackbox.torch_models import open_function

        return open_function(text, preprocessing, device, threads, python_path)
    _refuse_others(text, suffix)
    from memorisk.models.blackbox.torch_models import open_named

    return open_named(text, preprocessing, weights, num_classes, device, threads)


def _file(text: str) -> Path:
    file = Path(text)
    if not file.is_file():
        raise InputError(f"model file {one_line(text)} does not exist")
    return file


def _refuse_others(text: str, suffix: str) -> None:
    """Refuse files that do not hold a whole model, each with its way out."""
    title = one_line(Path(text).name, 80)
    if suffix in WEIGHTS_ALONE:
        raise InputError(
            f"{title} does not hold a whole model: such files hold weights alone, TorchScript, or a pickled network "
            "whose loading runs code from the file; give the network's name and this file as its weights, or export "
            "it to ONNX"
        )
    if suffix == ".pt2":
        raise InputError(
            f"{title} is a program of torch.export, which is not read: export the network to ONNX (torch.onnx.export), "
            "or give a module:function that returns it"
        )
    if suffix == ".npz":
        raise InputError(f"{title} holds arrays, no model: give saved outputs as saved outputs, weights as weights")
    if Path(text).is_file() or "/" in text:
        raise InputError(f"{title} is not a model of a known kind: give {_KINDS}")
    if difflib.get_close_matches(suffix, [".onnx"], cutoff=0.7):  # net.onx, which is not a network of timm either
        raise InputError(f"model file {title} does not exist; its name would end with .onnx")
