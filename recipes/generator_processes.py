"""Several processes train the generator that one would: the largest difference of a weight, and of a loss.

    python recipes/generator_processes.py [--processes 2] [--steps 20]

A tiny diffusion transformer on scikit-learn's digits, on the CPU (gloo), with the same global batch. Exit code 1 if a
weight differs by more than 1e-4, which sums in another order do not explain.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from safetensors.numpy import load_file
from sklearn.datasets import load_digits

LIMIT = 1e-4
WEIGHTS = "generator/transformer/diffusion_pytorch_model.safetensors"


def train(folder: Path, out: str, processes: int, steps: int) -> None:
    """The command, by so many processes."""
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"] if processes > 1 else []
    settings = {"size": 16, "network": "tiny/8", "steps": steps, "batch-size": 12, "snapshot-every": 10, "lr": 1e-3}
    flags = [str(part) for name, value in settings.items() for part in (f"--{name}", value)]
    command = [sys.executable, *launch, "-m", "memorisk", "train", "generator", str(folder / "images"), *flags]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MEMORISK_CACHE": str(folder / "cache")}
    subprocess.run(
        [*command, "--device", "cpu", "--flip", "--out", str(folder / out)],
        check=True,
        env=environment,
        stdout=subprocess.DEVNULL,
    )


def main() -> None:
    """Train twice and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        digits = load_digits()
        for i in range(200):
            place = folder / "images" / str(digits.target[i])
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray((digits.images[i] * 15).astype(np.uint8)).save(place / f"{i:03}.png")
        for out, processes in (("one", 1), ("several", given.processes)):
            train(folder, out, processes, given.steps)
        one, several = (load_file(folder / out / WEIGHTS) for out in ("one", "several"))
        apart = max(float(np.abs(one[name] - several[name]).max()) for name in one)
        losses = [
            [row["loss"] for row in json.loads((folder / out / "training.json").read_text())["history"]]
            for out in ("one", "several")
        ]
    print(f"{given.processes} processes, {given.steps} steps: weights differ by at most {apart:.2g}")
    print(f"training loss: {losses[0]} and {losses[1]}")
    sys.exit(int(apart > LIMIT))


if __name__ == "__main__":
    main()
