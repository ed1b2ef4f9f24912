"""Canary trainings on a GPU: stacks to early stopping, and table 2 of paper 002 against its "about 200 GPU hours".

    python benchmarks/gpu_canaries.py ../shared/data [--out runs/gpu-canaries] [--device cuda]
    python benchmarks/gpu_canaries.py --small            # the same code on a CPU, on the digits, in a few minutes

Prints and writes (``benchmarks/results/gpu_canaries.json``, not with --small): device; for MLP-1, CNN-1 and CNN-2
30 and 100 canary trainings stacked, to early stopping: time, epochs, and the ratio to one after another (measured on a
few, in the same run, and scaled by their number); and the wall time of table 2 (30 canaries and 20 references of each
network and data set), on the images given. The paper's 200 hours are for all of its experiments and 60,000 images.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from memorisk.runs.environment import machine, versions
from memorisk.runs.files import read_array, write_json
from memorisk.runs.workload import no_progress
from memorisk.studies.unique_features.canary_training import with_canaries
from memorisk.studies.unique_features.config import read_unique
from memorisk.studies.unique_features.plan import Arm, Planner
from memorisk.studies.unique_features.study import prepare_sets, study_unique_features
from memorisk.training.classifiers.early_stopping import fit_early, fit_early_stacked

HERE = Path(__file__).parent
SIZES, ALONE = (30, 100), 3
NETWORKS = {"mlp1": "MNIST", "cnn1": "MNIST", "cnn2": "CIFAR-10"}


def configuration(data: Path | None, device: str) -> dict[str, Any]:
    """Table 2 on the sets at hand; on the digits, small."""
    if data is None:
        few = {"highest": 1, "lowest": 1, "references": 2, "epochs": 3, "patience": 2, "n_probes": 20, "n_controls": 19}
        sets = {name: {"images": "digits", "probes": "digits", "sample": 200} for name in ("MNIST", "CIFAR-10")}
        sets["CIFAR-10"] |= {"size": 16, "networks": ["cnn2"]}
        sets["MNIST"] |= {"networks": ["mlp1", "cnn1"]}
        return {"settings": few | {"device": device, "random": 0, "latent": 0}, "datasets": sets}
    cifar, mnist = str(data / "cifar10_jpg"), f"mnist:{data / 'mnist_t10k'}"
    return {
        "settings": {"device": device, "random": 0, "latent": 0},
        "datasets": {
            "MNIST": {"images": mnist, "probes": cifar, "networks": ["mlp1", "cnn1"]},
            "F-MNIST": {"images": str(data / "fashion_mnist_png"), "probes": cifar, "networks": ["mlp1", "cnn1"]},
            "CIFAR-10": {"images": cifar, "probes": mnist, "networks": ["cnn2", "densenet100"]},
        },
    }


def stacked(plan: Planner, network: str, n: int, device: str) -> dict[str, Any]:
    """Canary trainings side by side, and a few of them one after another, on one device."""
    arm = Arm(NETWORKS[network], network)
    slots = plan.random_slots(arm, n)
    jobs = [plan.training(arm, "random", i, canary=int(slot)).job for i, slot in enumerate(slots)]
    clean = read_array(jobs[0].images, mmap=True)
    images, labels, rows = with_canaries(jobs, clean)
    first = jobs[0]
    given = {"patience": first.patience, "device": device, "normalisation": first.normalisation}
    begun = time.perf_counter()
    logs = fit_early_stacked(
        [job.model() for job in jobs], images, labels, rows, first.validation, first.options,
        seeds=[job.seed for job in jobs], **given,
    )  # fmt: skip
    wait(device)
    together = time.perf_counter() - begun
    alone = []
    for job, own in list(zip(jobs, rows, strict=True))[:ALONE]:
        begun = time.perf_counter()
        fit_early(job.model(), images, labels, own, job.validation, job.options, seed=job.seed, **given)
        wait(device)
        alone.append(time.perf_counter() - begun)
    return {
        "network": network, "trainings": n, "images": len(first.rows), "seconds": together,
        "epochs": [len(log.losses) for log in logs], "seconds_alone": alone,
        "times_as_fast": float(np.mean(alone)) * n / together,
    }  # fmt: skip


def wait(device: str) -> None:
    """Until the device has done what it was told."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    data, device = (None, "cpu") if given.small else (given.data, given.device)
    if data is None and not given.small:
        parser.error("name the folder with the image sets, or --small")
    config = configuration(data, device)
    with tempfile.TemporaryDirectory() as temporary:
        out = given.out or Path(temporary)
        study = read_unique(config)
        plan = Planner(study, prepare_sets(study, no_progress), out / "stacks")
        rows = []
        for network in NETWORKS:
            for n in (2, 4) if given.small else SIZES:
                rows.append(stacked(plan, network, n, device))
                print({k: v for k, v in rows[-1].items() if k != "epochs"}, flush=True)
        begun = time.perf_counter()
        found = study_unique_features(config, out=out / "table-2")
        hours = (time.perf_counter() - begun) / 3600
        table = next(t for t in found.tables if t.name == "table_2")
        print(table.paper.to_string(index=False))
        print(f"table 2: {len(found.reading.answers)} trainings in {hours:.2f} hours")
    name = torch.cuda.get_device_name() if device.startswith("cuda") else "CPU"
    result = {
        "device": name, "machine": machine(), "versions": versions(), "stacks": rows, "table_2_hours": hours,
        "trainings": len(found.reading.answers), "table_2": table.ours.to_dict("records"), "failed": found.failed,
    }  # fmt: skip
    if not given.small:
        write_json(HERE / "results" / "gpu_canaries.json", result)


if __name__ == "__main__":
    main()
