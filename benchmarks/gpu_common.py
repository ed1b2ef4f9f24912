"""What the stages of ``gpu_quarter.py`` share: notes, the clock, the card's rates, inputs."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json

ROOT = Path(__file__).resolve().parents[1]


class WrongAnswer(Exception):
    """A GPU's answer is not the CPU's."""


@dataclass(eq=False)
class Run:
    """One stage at work: its settings, and its result file, which is written anew at every note."""

    name: str
    file: Path
    folder: Path
    """For files that nobody keeps."""
    data: Path | None
    """Folder with ``ham10000/`` and one file of weights; None for stages that need none."""
    small: bool
    limit: float
    commit: str
    started: float = field(default_factory=time.monotonic)
    results: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def device(self) -> torch.device:
        """The GPU; small, the CPU."""
        return torch.device("cpu" if self.small else "cuda")

    @property
    def seconds(self) -> float:
        """Seconds since the stage began."""
        return time.monotonic() - self.started

    def note(self, line: str = "", **values: Any) -> None:
        """Write what was measured, and the stage's line of the table where there is one."""
        self.results |= values | ({"line": line} if line else {})
        device = "CPU" if self.small else torch.cuda.get_device_name()
        about = {"stage": self.name, "status": "running", "device": device, "commit": self.commit}
        about |= {"versions": versions(), "machine": machine(), "limit": self.limit, "seconds": self.seconds}
        write_json(self.file, about | {"results": self.results})


def wait(device: torch.device) -> float:
    """The time when the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def seconds(function: Callable[[], Any], device: torch.device) -> float:
    """Wall seconds of one call, to the end of what it started on the device."""
    begun = wait(device)
    function()
    return wait(device) - begun


class CardPeak:
    """The most memory in use on the card, by all processes, while a block runs; looked at every 50 ms."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.bytes, self._stop = device, 0, threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "CardPeak":
        if self.device.type == "cuda":
            self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            free, total = torch.cuda.mem_get_info(self.device)
            self.bytes = max(self.bytes, total - free)


class Rates:
    """The card's own rates a second: multiply-adds of products and on registers, reciprocal roots, bytes copied.

    A limit from them is the least time that a computation takes: each measure's multiply-adds a pair and column, or, of
    measures that are not a product, its instructions (``INSTRUCTIONS``) and special functions on registers.
    """

    INSTRUCTIONS = {"cityblock": 2, "braycurtis": 2, "chebyshev": 2, "minkowski": 3, "canberra": 3, "jensenshannon": 2}  # noqa: RUF012
    SPECIAL = ("canberra", "jensenshannon")
    SIZE, UNROLLED = 2048, 16

    def __init__(self, device: torch.device) -> None:
        from gpu_kernels import chains

        small = device.type == "cpu"
        side, programs, turns = (64, 1, 1) if small else (8192, 8192, 512)
        self.device, self.medians = device, {}
        a, b = (torch.randn(side, side, device=device) for _ in range(2))
        short, out = (a.bfloat16(), b.bfloat16()), torch.empty(programs * self.SIZE, device=device)
        big = torch.empty(1 << 10 if small else 1 << 28, device=device)
        copy, steps = torch.empty_like(big), programs * self.SIZE * turns * self.UNROLLED
        work: dict[str, tuple[float, Callable[[], Any]]] = {
            "products": (side**3, lambda: torch.mm(a, b)),
            "bf16_products": (side**3, lambda: torch.mm(*short)),
            "multiply_adds": (steps, lambda: chains(out, programs, turns, self.SIZE, self.UNROLLED, roots=False)),
            "roots": (steps, lambda: chains(out, programs, turns, self.SIZE, self.UNROLLED, roots=True)),
            "bytes": (2 * big.nbytes, lambda: copy.copy_(big)),
        }
        for name, (many, run) in work.items():
            times = [seconds(run, device) for _ in range(2 if small else 8)][1:]
            self.medians[name] = many / float(np.median(times))

    def limit(self, measure: str, pairs: float, d: int) -> float:
        """Seconds that a measure of pairs of d columns takes at least."""
        steps, rates = pairs * d, self.medians
        if measure not in self.INSTRUCTIONS:
            return steps / rates["products"]
        special = steps * (measure in self.SPECIAL) / rates["roots"]
        return max(steps * self.INSTRUCTIONS[measure] / rates["multiply_adds"], special)


def blotches(n: int, side: int, seed: int = 0) -> np.ndarray:
    """[n, side, side, 3] random images of eight by eight fields."""
    coarse = np.random.default_rng(seed).integers(0, 256, (n, 8, 8, 3), dtype=np.uint8)
    return coarse.repeat(side // 8, axis=1).repeat(side // 8, axis=2)


def write_images(images: np.ndarray, folder: Path) -> Path:
    """A folder of the images as PNG, each a person of its own."""
    from PIL import Image

    folder.mkdir(parents=True)
    for number, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{number:06}.png")
    return folder


def small_data(folder: Path) -> Path:
    """A stand-in for the folder of data, small: 60 lesions of three kinds at 32 px, and random weights."""
    import pandas as pd
    import timm
    from safetensors.torch import save_file

    classes = np.arange(60) % 3
    images = (blotches(60, 32) * 0.5 + 60 * classes[:, None, None, None]).astype(np.uint8)
    write_images(images, folder / "ham10000" / "images")
    ids = [f"{number:06}" for number in range(60)]
    table = {"lesion_id": ids, "image_id": ids, "dx": np.array(["bkl", "mel", "nv"])[classes]}
    pd.DataFrame(table).to_csv(folder / "ham10000" / "HAM10000_metadata.csv", index=False)
    save_file(timm.create_model("tf_efficientnet_lite0").state_dict(), folder / "lite0.safetensors")
    return folder
