"""What is to be measured on a GPU: audits at 224 px, small networks stacked, fine-tuning against the card's own limit.

    python benchmarks/gpu.py ../shared/data [--out runs/gpu] [--weights default]
    python benchmarks/gpu.py --small            # the same code on a CPU, in a minute or two, on the digits

Prints and writes (``benchmarks/results/gpu.json``, not with --small): device; wall time of each audit of HAM10000 with
ResNet-50 and ViT-B/16, models, verdict; one cell of paper 000 (its design, 4 seeds x 2) the same way; 8, 32 and 128
small CNNs stacked against one after another; and fine-tuning in images/s, beside the products in bf16 that the card
does in the same run (2 operations a product and sum; 3 passes' worth a step).
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import yaml

from memorisk.audits.classifier.run import audit_classifier
from memorisk.images.published.mnist import digits_manifest, read_digit
from memorisk.models.classifiers.specs import model_spec
from memorisk.models.classifiers.zoo import create_model
from memorisk.report.result import Result
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json
from memorisk.training.classifiers.fit import fit
from memorisk.training.classifiers.stacked import fit_stacked
from memorisk.training.engine.options import TrainOptions, resolve_options
from memorisk.training.engine.pixels import choose_normalisation

HERE = Path(__file__).parent
MODELS = ("resnet50", "vit_base_patch16_224")
STACKS = (8, 32, 128)
SMALL = {"models": 2, "epochs": 1, "size": 32, "device": "cpu", "seeds": (123,), "discard_weights": True}


def audit(name: str, data: Path | None, out: Path, weights: str | None, protocol: str) -> dict[str, object]:
    """One audit of HAM10000 (or of the digits, small), images to report; ``paper`` is one cell of its study."""
    if data is None:
        images, settings = "digits", SMALL | {"models": None, "model": name}
    else:
        settings = yaml.safe_load((HERE.parent / "recipes" / f"ham10000-224-{name}.yaml").read_text())
        images = str(data / "ham10000_224" / "HAM10000_metadata.csv")
        settings |= {"image_root": data / "ham10000_224" / "images", "weights": weights}
        settings.pop("images")
    if protocol == "paper":
        settings = settings | {"protocol": "paper", "design": None, "models": None if data is None else 8}
    start = time.perf_counter()
    result = audit_classifier(images, out=out / f"{name}-{protocol}", **settings)
    assert isinstance(result, Result)
    return {
        "model": name,
        "protocol": protocol,
        "seconds": time.perf_counter() - start,
        "models": result.summary["n_models"],
        "images": result.summary["n_images"],
        "utility": result.summary["utility"],
        "status": result.status,
        "classes": result.per_class[["label", "n", "mean", "low", "high", "tier", "flagged"]].to_dict("records"),
    }


def stacked(device: str, n_models: int, epochs: int) -> dict[str, float]:
    """Small CNNs on the digits: stacked, and one after another, on one device."""
    manifest = digits_manifest()
    images = np.stack([read_digit(int(f)) for f in manifest.table["frame"]])
    targets = np.unique(manifest.labels.astype(str), return_inverse=True)[1].astype(np.int64)
    rows = [np.random.default_rng(s).permutation(len(images))[:524] for s in range(n_models)]
    options = resolve_options(TrainOptions(epochs=epochs, precision="fp32"), model_spec("small_cnn"))

    def models() -> list[torch.nn.Module]:
        return [create_model("small_cnn", num_classes=10, in_chans=1, image_size=8, seed=s) for s in range(n_models)]

    start = time.perf_counter()
    fit_stacked(models(), images, targets, rows, options, seeds=list(range(n_models)), device=device)
    middle = time.perf_counter()
    for s, model in enumerate(models()):
        fit(model, images, targets, rows[s], options, seed=s, device=device)
    end = time.perf_counter()
    return {"stacked": middle - start, "one_after_another": end - middle, "ratio": (end - middle) / (middle - start)}


def ceiling(device: str, side: int) -> float:
    """Operations per second of one large product in bf16: what the card can do at most."""
    a, b = (torch.randn(side, side, device=device, dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        a @ b
    _wait(device)
    times = []
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(5):
            a @ b
        _wait(device)
        times.append((time.perf_counter() - start) / 5)
    return 2 * side**3 / float(np.median(times))


def fine_tuning(name: str, device: str, n: int, size: int, most: float) -> dict[str, object]:
    """Images per second of `fit` in bf16, and the share of the card's products that they need."""
    images = np.random.default_rng(0).integers(0, 256, (n, size, size, 3), dtype=np.uint8)
    targets = np.arange(n) % 7
    options = resolve_options(TrainOptions(epochs=4, precision="bf16"), model_spec(name))
    model = create_model(name, num_classes=7, image_size=size, weights="none", seed=0)
    operations = _operations(model, size)
    done: list[float] = []
    norm = choose_normalisation(images, "dataset")
    fit(
        model, images, targets, np.arange(n), options, seed=0, device=device, normalisation=norm,
        on_epoch=lambda epoch, loss: done.append(time.perf_counter()),
    )  # fmt: skip
    rate = n / float(np.median(np.diff(done)))  # the first epoch also chooses kernels and is not counted
    return {"model": name, "images_per_second": rate, "share_of_ceiling": 3 * operations * rate / most}


def _operations(model: torch.nn.Module, size: int) -> float:
    """Operations of one forward pass of one image, counted by PyTorch."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.eval()(torch.zeros(1, 3, size, size))
    return float(counter.get_total_flops())


def _wait(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def main() -> None:
    """Run everything and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--weights")
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    if given.data is None and not given.small:
        parser.error("name the folder of data sets, or --small")
    device = "cpu" if given.small else "cuda"
    with tempfile.TemporaryDirectory() as name:
        out = given.out or Path(name)
        found = {
            "audits": [
                audit(m, None if given.small else given.data, out, given.weights, protocol)
                for protocol in ("corrected", "paper")
                for m in MODELS
            ],
            "small_cnn": {k: stacked(device, k, 2 if given.small else 30) for k in ((2,) if given.small else STACKS)},
            "bf16_ceiling": (most := ceiling(device, 256 if given.small else 8192)),
            "fine_tuning": [
                fine_tuning(m, device, 32 if given.small else 4096, 32 if given.small else 224, most) for m in MODELS
            ],
            "device": device if given.small else torch.cuda.get_device_name(),
            "machine": machine(),
            "versions": versions(),
        }
    print(yaml.safe_dump(found, sort_keys=False))
    if not given.small:
        write_json(HERE / "results" / "gpu.json", found)


if __name__ == "__main__":
    main()
