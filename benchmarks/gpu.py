"""What issue 2 lists under "on a GPU": HAM10000 at 224 px with ResNet-50 and ViT-B/16, and small networks stacked.

    python benchmarks/gpu.py ../shared/data [--out runs/gpu] [--weights default]
    python benchmarks/gpu.py --small            # the same code on a CPU, in a minute or two, on the digits

Prints and writes (``benchmarks/results/gpu.json``, not with --small): device, wall time of each audit, models, verdict,
and the time of sixteen small CNNs stacked against one after another.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import yaml

from memorisk.audits.classifier import audit_classifier
from memorisk.images.digits import digits_manifest, read_digit
from memorisk.models.zoo import create_model, model_spec
from memorisk.report.result import Result
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import write_json
from memorisk.training.fit import fit
from memorisk.training.options import TrainOptions, resolve_options
from memorisk.training.stacked import fit_stacked

HERE = Path(__file__).parent
MODELS = ("resnet50", "vit_base_patch16_224")
SMALL = {"models": 2, "epochs": 1, "size": 32, "device": "cpu", "seeds": (123,), "discard_weights": True}


def audit(name: str, data: Path | None, out: Path, weights: str | None) -> dict[str, object]:
    """One audit of HAM10000 (or of the digits, small), timed from images to report."""
    if data is None:
        images, settings = "digits", SMALL | {"models": None, "model": name}
    else:
        settings = yaml.safe_load((HERE.parent / "recipes" / f"ham10000-224-{name}.yaml").read_text())
        images = str(data / "ham10000_224" / "HAM10000_metadata.csv")
        settings |= {"image_root": data / "ham10000_224" / "images", "weights": weights}
        settings.pop("images")
    start = time.perf_counter()
    result = audit_classifier(images, out=out / name, **settings)
    assert isinstance(result, Result)
    return {
        "model": name,
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
            "audits": [audit(m, None if given.small else given.data, out, given.weights) for m in MODELS],
            "small_cnn": stacked(device, 2 if given.small else 16, 2 if given.small else 30),
            "device": device if given.small else torch.cuda.get_device_name(),
            "machine": machine(),
            "versions": versions(),
        }
    print(yaml.safe_dump(found, sort_keys=False))
    if not given.small:
        write_json(HERE / "results" / "gpu.json", found)


if __name__ == "__main__":
    main()
