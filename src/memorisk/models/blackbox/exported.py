"""Files of ``torch.export.save``: run by ATen's operators, without loading anything of them as code."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from memorisk.models.blackbox.asked import Answerer, ask_in_batches
from memorisk.models.blackbox.export_archive import read_archive
from memorisk.models.blackbox.export_graph import ExportGraph
from memorisk.models.blackbox.preprocessing import Preprocessing
from memorisk.models.blackbox.torch_module import PASSES, as_array, torch_threads
from memorisk.runs.devices import check_device
from memorisk.runs.errors import InputError, one_line
from memorisk.runs.fingerprint import file_fingerprint


def open_export(file: Path, preprocessing: Preprocessing, device: str, threads: int | None) -> Answerer:
    """Read a ``.pt2`` file and prepare its graph.

    Args:
        file: As ``torch.export.save`` writes it, from PyTorch 2.9 on.
        preprocessing: As declared; the graph's input must fit it.
        device: Where to run, whatever device it was exported on.
        threads: For PyTorch's operations, only while the model is asked; None leaves them.

    Raises:
        InputError: As `read_archive` and `ExportGraph`; an input of another shape or type than declared, no output
            [n, classes], or a graph that changes its own weights.
    """
    where = check_device(device)
    said = one_line(file.name, 80)
    archive = read_archive(file)
    try:
        graph = ExportGraph(archive, said, where)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
        raise InputError(
            f"{said} is damaged or not as torch.export.save writes it ({type(error).__name__} "
            f"{one_line(error, 120)}): export it again"
        ) from error
    notes: list[str] = []
    _check_input(graph, said, preprocessing, notes)
    grey = np.full((2, *preprocessing.size, preprocessing.channels), 0.5, np.float32)
    position = _choose(graph, said, preprocessing.apply(grey), where, threads, notes)
    low, high = graph.batch

    def once(x: np.ndarray) -> np.ndarray:
        """Answers of one pass."""
        with torch.no_grad(), torch_threads(threads):
            return as_array(graph.run(torch.from_numpy(x).to(where, graph.dtype))[position], said)

    facts: dict[str, Any] = {
        "kind": "export",
        "file": said,
        "fingerprint": file_fingerprint(file),
        "exported_by": f"PyTorch {one_line(archive.program.get('torch_version', 'unknown'), 40)}",
        "parameters": sum(value.numel() for value in archive.tensors.values()),
        "device": str(where),
        "notes": notes,
    }
    return Answerer(file.name, lambda x: ask_in_batches(once, x, low, high), facts, PASSES)


def _check_input(graph: ExportGraph, said: str, preprocessing: Preprocessing, notes: list[str]) -> None:
    wanted = (preprocessing.channels, *preprocessing.size)
    shape = ", ".join("any" if side is None else str(side) for side in graph.shape)
    if len(graph.shape) != 4:
        raise InputError(f"{said} must take images of rank 4, [n, C, H, W]; it takes [{shape}]")
    if any(side not in (None, want) for side, want in zip(graph.shape[1:], wanted, strict=True)):
        raise InputError(
            f"{said} takes images [{shape}]; the preprocessing declares [n, {', '.join(map(str, wanted))}]: declare "
            "the file's size and channels"
        )
    if graph.dtype is None or not graph.dtype.is_floating_point:
        raise InputError(f"{said} takes {graph.dtype}; it must take floating-point images, normalised as declared")
    low, high = graph.batch
    if low == high:
        notes.append(f"the file takes {low} images at a time: the last batch is filled up")
    if graph.dtype != torch.float32:
        notes.append(f"the file takes {str(graph.dtype).removeprefix('torch.')}: images are cast for it")


def _choose(
    graph: ExportGraph, said: str, grey: np.ndarray, where: torch.device, threads: int | None, notes: list[str]
) -> int:
    """Which of the network's results is [n, classes]; the first such one."""
    size = min(max(len(grey), graph.batch[0]), graph.batch[1] or len(grey))
    x = torch.from_numpy(np.repeat(grey[:1], size, axis=0)).to(where, graph.dtype)
    versions = {name: value._version for name, value in graph.held.items()}
    try:
        with torch.no_grad(), torch_threads(threads):
            results = graph.run(x)
    except (InputError, *PASSES):
        raise
    except Exception as error:  # an operator may refuse what the file gives it
        raise InputError(
            f"{said} failed on images {list(x.shape)}, as the preprocessing declares them: {type(error).__name__}: "
            f"{one_line(error, 160)}"
        ) from error
    if any(value._version != versions[name] for name, value in graph.held.items()):
        raise InputError(f"{said} changes its own weights or buffers when asked: export it after model.eval()")
    fit = [i for i, result in enumerate(results) if isinstance(result, torch.Tensor) and result.ndim == 2]
    if not fit:
        shapes = ", ".join(str(list(getattr(result, "shape", ()))) for result in results[:5])
        raise InputError(f"{said} returns no [n, classes]; it returns {shapes}")
    if len(results) > 1:
        notes.append(f"of {len(results)} outputs the one at place {fit[0] + 1} is read: the first of rank 2")
    return fit[0]
