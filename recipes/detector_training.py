"""What training a copy detector is good for: SqueezeNet's ImageNet features on chest X-rays of new patients.

    python recipes/detector_training.py DATA [--runs runs/detectors] [--out docs/results/detector_training.md]

DATA holds ``nih_cxr14_64`` (1,000 chest X-rays at 64 pixels, patients by file name) and
``weights_squeezenet_imagenet``. Both losses, trained on weak and on strong copies, 45 epochs in batches of 64: some
three minutes each on one free core. A run that is there already is read, not repeated.
"""

import argparse
from pathlib import Path
from typing import Any

from memorisk.runs.files import write_text
from memorisk.training.detectors.command import train_detector

SETTINGS: dict[str, Any] = {
    "size": 64, "channels": 1, "group_from": r"(\d{8})_", "epochs": 45, "batch_size": 64,
    "validation_share": 0.2, "test_share": 0.2,
}  # fmt: skip
GRID = [("infonce", "strong"), ("infonce", "weak"), ("triplet", "strong"), ("triplet", "weak")]


def name(summary: dict[str, Any]) -> str:
    """Of a detector: its loss, and the copies it was trained on."""
    return f"{summary['loss']}, {summary['recipe']['augment']}"


def row(summary: dict[str, Any], strength: str) -> str:
    """Test copies of a strength: before, after, and the difference with its interval over patients."""
    found = summary["test"][strength]
    shares = " | ".join(f"{100 * found[which]['share']:.1f}" for which in ("backbone", "untrained", "trained"))
    test = found["trained_less_untrained"]
    low, high = (100 * test["difference"][limit] for limit in ("low", "high"))
    gain = f"{100 * test['difference']['estimate']:+.1f} ({low:.1f} to {high:.1f})"
    return f"| {name(summary)} | {strength} | {shares} | {gain} | {test['p_value']:.2g} |"


def page(summaries: list[dict[str, Any]]) -> str:
    """The results as Markdown."""
    first = summaries[0]
    parts = ", ".join(f"{n} {p['images']} images of {p['patients']} patients" for n, p in first["parts"].items())
    lines = [
        "# Training a copy detector on chest X-rays",
        "",
        f"By `recipes/detector_training.py`: NIH chest X-rays at 64 pixels ({parts}); {first['backbone']} from "
        f"{first['weights']}; {first['recipe']['epochs']} epochs, batches of {first['recipe']['batch_size']}, rate "
        f"{first['recipe']['lr']:g}, corrected protocol, seed {first['recipe']['seed']}. Test copies whose nearest "
        "image of the test part is their source, in %; intervals (95 %) and exact paired tests over patients.",
        "",
        "| loss, trained on | test copies | backbone | untrained | trained | gain | p |",
        "|---|---|---|---|---|---|---|",
        *(row(summary, strength) for summary in summaries for strength in ("weak", "strong")),
        "",
        "Share of validation copies found by epoch (those that were trained on), and the best epoch:",
        "",
        "| loss, trained on | best epoch | 0 | 10 | 20 | 30 | 40 | last |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for summary in summaries:
        shares = [step["retrieval"] for step in summary["history"]]
        some = " | ".join(f"{100 * share:.1f}" for share in [*shares[:41:10], shares[-1]])
        lines.append(f"| {name(summary)} | {summary['best_epoch']} | {some} |")
    said = [(summary, note) for summary in summaries for note in summary["notes"]]
    notes = {note: [name(s) for s, other in said if other == note] for _, note in said}
    lines += ["", *(f"- {note} ({'; '.join(who)})" for note, who in notes.items())]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Train or read every detector of the grid and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--runs", type=Path, default=Path("runs/detectors"))
    parser.add_argument("--out", type=Path, default=Path("docs/results/detector_training.md"))
    given = parser.parse_args()
    weights = given.data / "weights_squeezenet_imagenet" / "squeezenet11_features_derived_oihw.npz"
    summaries = []
    for loss, augment in GRID:
        run = train_detector(
            given.data / "nih_cxr14_64" / "NIH1000",
            out=given.runs / f"{loss}-{augment}",
            backbone=f"squeezenet1_1_caffe@{weights}",
            loss=loss,
            augment=augment,
            **SETTINGS,
        )
        summaries.append(run.summary)
    write_text(given.out, page(summaries))


if __name__ == "__main__":
    main()
