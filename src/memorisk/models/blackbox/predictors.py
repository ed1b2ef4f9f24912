"""A model to audit, of whatever kind: told by what is given, loaded once, asked many times."""

import difflib
from collections.abc import Sequence
from pathlib import Path

from memorisk.models.blackbox.asked import Answerer, AskedNetwork, Predictor
from memorisk.models.blackbox.outputs import OUTPUTS
from memorisk.models.blackbox.preprocessing import Preprocessing
from memorisk.runs.errors import InputError, one_line

WEIGHTS_ALONE = (".pt", ".pth", ".ckpt", ".th", ".bin", ".safetensors", ".pkl", ".pickle", ".joblib")
"""Files that hold weights without a network, or a network only as code that loading would run."""

_FILES = (".onnx", ".pt2")
_KINDS = "module:function, a network's name with weights, an .onnx file or a .pt2 file"


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
        model: ``module:function`` (takes nothing, returns a module or a callable), an ``.onnx`` file, a ``.pt2`` file
            of ``torch.export.save``, or a network's name as for `memorisk.models.classifiers.zoo.create_model`.
        preprocessing: What the model was trained with; asserted at every call.
        weights: The file of a network given by name; nothing else takes one.
        num_classes: How many there are, checked against what the model gives; None if unknown.
        output: What the model gives: "logits", "probabilities", or "auto" to tell from answers to noise, once.
        device: "cpu", "cuda" or "cuda:1".
        threads: To compute on; None for the libraries' own number.
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
    return AskedNetwork(source, preprocessing, output, num_classes)


def _open(
    model: str | Path,
    preprocessing: Preprocessing,
    weights: str | Path | None,
    num_classes: int | None,
    device: str,
    threads: int | None,
    python_path: Sequence[str | Path],
) -> Answerer:
    """The answerer for what was given."""
    text, suffix = str(model), Path(model).suffix.lower()
    own = isinstance(model, str) and ":" in text and not text.startswith("timm:") and not Path(text).exists()
    if weights is not None and (own or suffix in _FILES):
        raise InputError(
            f"{one_line(text, 80)} holds its own weights: leave {one_line(weights, 80)} out, or give a network's name"
        )
    if suffix == ".onnx":
        from memorisk.models.blackbox.onnx import open_onnx

        return open_onnx(_file(text), preprocessing, device, threads)
    if suffix == ".pt2":
        from memorisk.models.blackbox.exported import open_export

        return open_export(_file(text), preprocessing, device, threads)
    if own:
        from memorisk.models.blackbox.torch_module import open_function

        return open_function(text, preprocessing, device, threads, python_path)
    _refuse_others(text, suffix)
    from memorisk.models.blackbox.torch_module import open_named

    return open_named(text, preprocessing, weights, num_classes, device, threads)


def _file(text: str) -> Path:
    file = Path(text)
    if not file.is_file():
        raise InputError(f"there is no model file {one_line(text)}")
    return file


def _refuse_others(text: str, suffix: str) -> None:
    """Files that are no model by themselves, each with its way out."""
    said = one_line(Path(text).name, 80)
    if suffix in WEIGHTS_ALONE:
        raise InputError(
            f"{said} is no model by itself: such files hold weights alone, TorchScript, or a pickled network whose "
            f"loading runs code from the file; give the network's name and this file as its weights, or export it with "
            "torch.export.save (.pt2) or to ONNX"
        )
    if suffix == ".npz":
        raise InputError(f"{said} holds arrays, no model: give saved outputs as saved outputs, weights as weights")
    if Path(text).is_file() or "/" in text:
        raise InputError(f"{said} is no kind of model that is known: give {_KINDS}")
    if difflib.get_close_matches(suffix, _FILES, n=1, cutoff=0.7):  # net.onx, which is no network of timm either
        raise InputError(f"there is no model file {said}; its name would end with {' or '.join(_FILES)}")
