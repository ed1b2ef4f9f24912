"""Stages of ``gpu_quarter.py``: the tests that need a GPU, audits against the CPU's, audits of HAM10000 at 224 px."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import torch
import torch.nn.functional as F
import yaml

import memorisk
from gpu_common import ROOT, CardPeak, Run, WrongAnswer, blotches, seconds, small_data, wait, write_images
from memorisk.models.classifiers.specs import model_spec
from memorisk.models.classifiers.zoo import create_model
from memorisk.report.result import Result
from memorisk.training.classifiers.fit import fit
from memorisk.training.engine.devices import autocast, choose_precision
from memorisk.training.engine.options import TrainOptions, resolve_options
from memorisk.training.engine.pixels import dataset_normalisation

MODELS, CLASSES = 16, ["label", "n", "mean", "low", "high", "tier", "flagged"]


def tests(run: Run) -> None:
    """Every ``test_gpu.py``: tests that need a CUDA device, and those of the searches, which a CPU interprets."""
    report = run.folder / "report.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-v",
        f"--junitxml={report}",
        *sorted((ROOT / "tests").rglob("test_gpu.py")),
    ]
    command += ["-k", "a_quarter"] if run.small else ["-n", str(max(1, len(os.sched_getaffinity(0)) - 4))]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}  # the workers share the cores
    code = subprocess.run(command, cwd=ROOT, check=False, env=environment).returncode
    if not report.exists():
        raise WrongAnswer(f"pytest ended with {code} and without a report")
    suite = next(ElementTree.parse(report).iter("testsuite"))
    counts = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
    wrong = [case.get("name") for case in suite.iter("testcase") if {"failure", "error"} & {part.tag for part in case}]
    run.note(", ".join(f"{count} {name}" for name, count in counts.items()), **counts, wrong=wrong)
    if code:
        raise WrongAnswer(f"pytest exits with {code}: {', '.join(map(str, wrong))[:300]}")


def both(run: Run, audit: Any) -> tuple[Result, Result]:
    """An audit on the CPU and on the card, by a function of the device and a folder; their verdicts are noted."""
    results, lines = [], []
    for side, device in (("CPU", "cpu"), ("card", run.device.type)):
        begun = time.perf_counter()
        results.append(audit(device, run.folder / side))
        took, status = time.perf_counter() - begun, results[-1].status
        lines.append(f"{side} {status} in {took:.1f} s")
        run.note(", ".join(lines), **{side: {"status": status, "seconds": took, "why": results[-1].verdict["why"]}})
    return results[0], results[1]


def differences(cpu: Result, card: Result) -> Iterator[str]:
    """What the card's audit of a classifier says otherwise: the verdict, or a class's M beyond both intervals."""
    if cpu.status != card.status:
        yield f"the verdict is {card.status}, on the CPU {cpu.status}"
    for here, there in zip(cpu.per_class.itertuples(), card.per_class.itertuples(), strict=True):
        if there.low > here.high or there.high < here.low:
            yield f"class {here.label}: M is {there.mean:.3f}, on the CPU {here.mean:.3f}"


def classifier(run: Run) -> None:
    """``audit classifier digits`` on the card against the CPU's."""
    settings: dict[str, Any] = {"models": 2, "epochs": 1, "processes": 1} if run.small else {"models": MODELS}
    cpu, card = both(
        run,
        lambda device, out: memorisk.audit_classifier(
            "digits", out=out, device=device, discard_weights=True, **settings
        ),
    )
    apart = (cpu.per_class["mean"] - card.per_class["mean"]).abs().max()
    run.note(f"{run.results['line']}; M by class differs by at most {apart:.4f}", largest_difference=apart)
    if wrong := list(differences(cpu, card)):
        raise WrongAnswer("; ".join(wrong))


def synthetic(run: Run) -> None:
    """``audit synthetic`` of a set with darkened, noisy copies of ten patients, on the card against the CPU's."""
    n, side = (30, 16) if run.small else (100, 64)
    images, rng = blotches(3 * n, side), np.random.default_rng(1)
    copies = (0.8 * images[:10] + rng.normal(10, 6, images[:10].shape)).clip(0, 255).astype(np.uint8)
    sets = {
        "training": images[:n],
        "held_out": images[n : 2 * n],
        "made": np.concatenate([copies, images[2 * n + 10 :]]),
    }
    folders = {name: write_images(part, run.folder / name) for name, part in sets.items()}
    few = {"plants": 10} | ({"detector": "pixels:16"} if run.small else {})

    def audit(device: str, out: Path) -> Result:
        return memorisk.audit_synthetic(
            folders["training"], folders["made"], held_out=str(folders["held_out"]), out=out, device=device, **few
        )

    cpu, card = both(run, audit)
    listed = [set(result.per_group.query("listed")["group"]) for result in (cpu, card)]
    apart, copied = listed[0] ^ listed[1], {f"{number:06}.png" for number in range(10)}
    run.note(
        f"{run.results['line']}; {len(listed[0])} and {len(listed[1])} patients listed, {len(apart)} on one side only",
        copied_and_listed=[len(copied & side) for side in listed], apart=sorted(apart),
    )  # fmt: skip
    if apart & copied or cpu.status != card.status:
        raise WrongAnswer(f"the verdict is {card.status}, on the CPU {cpu.status}; on one side only: {sorted(apart)}")


def bare_rate(model: torch.nn.Module, images: np.ndarray, targets: np.ndarray, device: torch.device) -> float:
    """Images a second of the barest loop on normalised tensors on the card: gather, forward, backward, fused Adam."""
    model = model.to(device, memory_format=torch.channels_last).train()  # pyright: ignore[reportCallIssue]
    x = torch.from_numpy(images).to(device).permute(0, 3, 1, 2).float().div_(127.5).sub_(1)
    x, y = x.contiguous(memory_format=torch.channels_last), torch.from_numpy(targets).to(device)
    adam, precision = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True), choose_precision("auto", device)

    def epoch() -> None:
        for rows in torch.randperm(len(y), device=device).split(64):
            with autocast(device, precision):
                loss = F.cross_entropy(model(x[rows]), y[rows])
            adam.zero_grad()
            loss.backward()
            adam.step()

    return len(y) / min(seconds(epoch, device) for _ in range(3))


def training_rates(run: Run, name: str, size: int) -> dict[str, float]:
    """Images a second of `fit`, in bf16 where the card has it, and of the bare loop."""
    n = 16 if run.small else 2048
    images, targets = blotches(n, size), np.arange(n) % 7
    options, ends = resolve_options(TrainOptions(epochs=2 if run.small else 4), model_spec(name)), []
    model = create_model(name, num_classes=7, image_size=size, seed=0)
    fit(
        model, images, targets, np.arange(n), options, seed=0, device=run.device,
        normalisation=dataset_normalisation(images), on_epoch=lambda epoch, loss: ends.append(wait(run.device)),
    )  # fmt: skip
    ours, bare = n / float(np.median(np.diff(ends))), bare_rate(model, images, targets, run.device)
    return {"images_per_second": ours, "bare_loop": bare, "share_of_bare_loop": ours / bare}


def audit_ham10000(run: Run, name: str, rate: float, weights: Path | None) -> None:
    """An audit of HAM10000 by the recipe of the project, with as many epochs as the stage has time for."""
    data = run.data or small_data(run.folder / "data")
    table = data / "ham10000" / "HAM10000_metadata.csv"
    settings = yaml.safe_load((ROOT / "recipes" / "ham10000-224-resnet50.yaml").read_text("utf-8"))
    settings |= {"images": table, "image_root": data / "ham10000" / "images", "model": name, "weights": weights}
    settings |= {"models": 2 if run.small else MODELS, "device": run.device.type, "size": 32 if run.small else 224}
    images = len(list((data / "ham10000" / "images").iterdir()))
    passes = settings["models"] * images * 0.4 / rate  # a model sees nearly half of the images
    settings["epochs"] = int(np.clip(0.35 * (run.limit - run.seconds) / passes, 1, 1 if run.small else 30))
    begun = time.perf_counter()
    with CardPeak(run.device) as peak:
        result = memorisk.audit_classifier(out=run.folder / "audit", **settings)
    assert isinstance(result, Result)
    took, summary = time.perf_counter() - begun, result.summary
    run.note(
        f"{run.results['line']}; audit of {summary['n_images']} images, {settings['models']} models, "
        f"{settings['epochs']} epochs: {took:.0f} s, {peak.bytes / 2**30:.1f} GiB, {result.status}",
        epochs=settings["epochs"], audit_seconds=took, peak_bytes_on_the_card=peak.bytes, verdict=result.verdict,
        images=summary["n_images"], models=summary["n_models"], utility=summary["utility"],
        classes=result.per_class[CLASSES].to_dict("records"),
    )  # fmt: skip


def rated_audit(run: Run, name: str, weights: Path | None = None) -> None:
    """Images a second of a network's training, then its audit of HAM10000."""
    rates = training_rates(run, name, 32 if run.small else 224)
    line = f"{name}: {rates['images_per_second']:,.0f} images/s, {rates['share_of_bare_loop']:.0%} of the bare loop"
    run.note(line, model=name, **rates)
    if not run.small:
        torch.cuda.empty_cache()
    audit_ham10000(run, name, rates["images_per_second"], weights)


def ham10000(run: Run) -> None:
    """ResNet-50 from random weights on HAM10000 at 224 px."""
    rated_audit(run, "small_resnet" if run.small else "resnet50")


def fine_tuning(run: Run) -> None:
    """EfficientNet-Lite0 from ImageNet's weights, fine-tuned on HAM10000."""
    run.data = run.data or small_data(run.folder / "data")
    rated_audit(run, "tf_efficientnet_lite0", next(run.data.glob("*.safetensors")))
