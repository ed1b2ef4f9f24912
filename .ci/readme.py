"""Run every command of README.md as it is typed there, in order, on small inputs of the names it uses.

Usage: .venv/bin/python .ci/readme.py [README.md docs/workflows.md]        (../shared/data beside the project)

CI runs the README; whoever releases also runs `docs/workflows.md`, which takes a quarter of an hour. Commands that only
set up, and the demo, run in the checkout; the others in a folder of their own, which holds what the pages call DATA,
NIH1000, TRAIN, SYNTHETIC, HELD_OUT, ATLAS, metadata.csv, images, dicoms, labels.csv, study.yaml and two finished runs.
A command this file does not know fails: whoever changes a page says here what is expected of it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "recipes"))
from doc_commands import Expected, commands_in_blocks, commands_in_prose, run  # noqa: E402
from stand_ins import STUDY, slice_of  # noqa: E402

SHARED = ROOT.parent / "shared" / "data"
BRIEF = " --epochs 1 --models 2"


HERE = Expected(in_checkout=True)
SKIN = (
    "memorisk audit classifier metadata.csv --image-root images --image-column image_id --label-column dx "
    "--group-column lesion_id "
)
UNIQUE = """
settings: {random: 2, runs: 2, highest: 1, lowest: 1, references: 3, latent: 0, profiled: 0, n_controls: 19, epochs: 2}
datasets:
  DATA: {images: DATA, probes: PROBES, networks: [mlp1], random: [mlp1], regularised: [mlp1], regularisers: [dropout]}
"""
EXPECTED: dict[str, list[Expected]] = {
    "make demo": [Expected((0,), "Report: runs/demo/report.html", in_checkout=True)],
    "make test": [],  # the step before this one ran these tests and more
    "memorisk view": [],  # a server until Ctrl-C: tests/view start it and look at it in a browser
    "python3 -m venv .venv": [HERE],
    ".venv/bin/python -m pip install": [HERE],
    ".venv/bin/memorisk audit classifier digits": [Expected((0,), "NOT READY FOR RELEASE", in_checkout=True)],
    ". .venv/bin/activate": [HERE],
    "python -m pip install": [HERE],
    "memorisk images check DATA": [Expected((0, 1), "class")],
    "memorisk audit classifier DATA --group-from": [Expected((0, 1), "Report: ", BRIEF)],
    "memorisk audit synthetic TRAIN SET": [
        Expected((1,), "Report: ", " --plants 5", ("SET --held-out OTHERS", "SYNTHETIC --held-out HELD_OUT"))
    ],
    "memorisk audit classifier DATA --out runs/mine --dry-run": [Expected((0,), "trainings")],
    # The hub cannot be reached from everywhere: asked for weights by name, the command trains or says so in one line.
    "memorisk audit classifier DATA --out runs/mine --model resnet50": [
        Expected((0, 1, 2), "", BRIEF),
        Expected(
            (0, 1),
            "Report: ",
            BRIEF,
            ("mine --model resnet50 --weights default --size 224", "random --model resnet50 --size 64"),
        ),
    ],
    "memorisk images check NIH1000": [Expected((1,), "groups across splits: 30")],
    SKIN + "--size 64 --model small_resnet --intervene": [Expected((0, 1), "akiec", BRIEF)],
    SKIN: [Expected((0, 1), "Report: ", " --epochs 1 --models 6")],  # probes need M from other seeds
    "memorisk audit classifier dicoms": [Expected((0, 1), "Report: ", BRIEF, ("--size 224", "--size 64"))],
    "memorisk explain runs/skin": [Expected((0,), "ratio")],
    "memorisk audit classifier DATA --regime": [Expected((1,), "dp-lora-8", BRIEF)],
    "memorisk train classifier DATA": [Expected((0,), "dp-lora-8", " --epochs 1")],
    "memorisk study rare-distinctive": [Expected((0,), "report: ")],
    "memorisk study unique-features": [Expected((0,), "Table 3. Regularisers")],
    "memorisk audit synthetic TRAIN SYNTHETIC --held-out HELD_OUT --group-from '^(\\d+)_' --size 64 --detector": [
        Expected((0, 1), "Report: ", " --plants 5")
    ],
    "memorisk audit synthetic TRAIN SYNTHETIC --held-out HELD_OUT --group-from '^(\\d+)_' --size 64 --features": [
        Expected((0, 1), "Report: ", " --plants 5")
    ],
    "memorisk audit synthetic TRAIN SYNTHETIC": [Expected((1,), "Report: ", " --plants 5")],
    "memorisk train autoencoder ATLAS": [Expected((0,), "autoencoder", " --epochs 1")],
    "memorisk train detector ATLAS --kind lcmem": [
        Expected((0,), "detector", " --backbone test_convnext@none --epochs 1 --stage2-epochs 1")
    ],
    "memorisk bench reid ATLAS": [Expected((0,), "LCMem")],
    "memorisk bench copies ATLAS": [Expected((0,), "LCMem", " --test-images 60 --families rotation jpeg")],
    "memorisk filter TRAIN SYNTHETIC shared": [Expected((0, 1), "Report: ")],
    "memorisk train detector ATLAS": [Expected((0,), "detector", " --epochs 1 --frozen-epochs 0")],
    "memorisk bench detectors ATLAS": [
        Expected(
            (0,),
            "",
            " --epochs 1 --frozen-epochs 0 --measures euclidean cosine --specificity 0.7",
            ("resnet50@none", "small_cnn@none"),
        )
    ],
    "memorisk train generator TRAIN": [
        Expected(
            (0,),
            "generator: runs/generator",
            " --steps 20 --snapshot-every 10 --watching.images 20 --watching.sampling-steps 5",
        )
    ],
    "memorisk generate runs/generator": [
        Expected((0,), "set: runs/drawn", " --sampling-steps 5", ("--images 1000", "--images 40"))
    ],
    "memorisk audit synthetic runs/generator": [Expected((1,), "Report: ", " --plants 5")],
    "memorisk quality runs/generator": [Expected((0,), "Quality says nothing about privacy")],
    "memorisk synthesize runs/generator": [
        Expected((0, 1), "Ledger: ", " --sampling-steps 5 --most-tries 2", ("--images 1000", "--images 20"))
    ],
    "memorisk release runs/synthetic": [Expected((0,), "metadata.csv written to clean")],
    "memorisk statement runs/synthetic": [Expected((1,), "Card: release/model-card.md")],
    "memorisk gate release/privacy-statement.json": [Expected((1,), "may not be released")],
    "memorisk statement RUN --page FILE": [Expected((1,), "Page: FILE.html", replaced=("RUN", "runs/set"))],
    "memorisk track runs/synthetic": [Expected((0,), "runs/synthetic: logged to mlflow:tracking")],
    "memorisk images mark xray.png": [Expected((0,), "seen.png")],
    "memorisk audit feature net.onnx": [Expected((0, 1), "Report: ", " --n-controls 30")],
    "memorisk report RUN --redact": [Expected((0,), "report-redacted.html", replaced=("RUN", "runs/skin"))],
    "memorisk compare runs/before runs/after": [Expected((0,), "difference")],
    'memorisk.audit_classifier("digits"': [Expected((0,), "Result(fail", in_checkout=True)],
}


def commands(text: str) -> list[str]:
    """Every line of the README's code blocks, and every command within a sentence, without comments."""
    return [*commands_in_blocks(text), *(c for c in commands_in_prose(text) if c.startswith("memorisk"))]


def inputs(folder: Path) -> None:
    """Small sets under the names that the README uses."""
    rng = np.random.default_rng(0)

    def picture(label: int, side: int) -> np.ndarray:
        pixels = rng.integers(0, 120, (side, side), dtype=np.uint8)
        pixels[label * side // 3 : (label + 1) * side // 3] += 100
        return pixels

    for label, name in enumerate(("benign", "malignant")):
        (folder / "DATA" / name).mkdir(parents=True)
        for k in range(40):
            Image.fromarray(picture(label, 32)).save(folder / "DATA" / name / f"{label}{k:03}_0.png")
    shutil.copytree(SHARED / "nih_cxr14_64" / "NIH1000", folder / "NIH1000")
    xrays = sorted((folder / "NIH1000").rglob("*.png"))
    patients = sorted({file.name[:8] for file in xrays})
    for name, some in (("TRAIN", patients[:80]), ("HELD_OUT", patients[80:140]), ("ATLAS", patients[140:])):
        (folder / name).mkdir()
        for file in xrays:
            if file.name[:8] in some:
                shutil.copy(file, folder / name)
    (folder / "SYNTHETIC").mkdir()
    for k in range(60):
        Image.fromarray(picture(k % 2, 64)).save(folder / "SYNTHETIC" / f"{k:03}.png")
    skin = SHARED / "ham10000_224"
    table = pd.read_csv(skin / "HAM10000_metadata.csv")
    table = table[[(skin / "images" / f"{image}.jpg").is_file() for image in table["image_id"]]]
    table = pd.concat([rows.head(60) for _, rows in table.groupby("dx") if rows["lesion_id"].nunique() > 40][:3])
    table.to_csv(folder / "metadata.csv", index=False)
    (folder / "images").mkdir()
    for image in table["image_id"]:
        shutil.copy(skin / "images" / f"{image}.jpg", folder / "images")
    rows = []
    for k in range(60):
        data = slice_of(picture(k % 2, 48).astype(np.uint16) * 8, patient=f"P{k // 2:02}")
        (folder / "dicoms").mkdir(exist_ok=True)
        data.save_as(folder / "dicoms" / f"slice{k:02}.dcm", enforce_file_format=True)
        rows.append({"SOPInstanceUID": str(data.SOPInstanceUID), "label": ("clear", "nodule")[k % 2]})
    pd.DataFrame(rows).to_csv(folder / "labels.csv", index=False)
    (folder / "study.yaml").write_text(STUDY)
    (folder / "unique.yaml").write_text(UNIQUE)
    Image.fromarray(picture(1, 64)).save(folder / "xray.png")
    (folder / "PROBES").mkdir()
    for k in range(40):
        Image.fromarray(picture(k % 2, 64)).save(folder / "PROBES" / f"{k}.png")
    export = (
        "import torch; from torch import nn; net = nn.Sequential(nn.Flatten(), nn.Linear(4096, 8), nn.ReLU(), "
        "nn.Linear(8, 3)); torch.onnx.export(net.eval(), (torch.zeros(2, 1, 64, 64),), 'net.onnx', dynamo=True, "
        "dynamic_shapes=({0: torch.export.Dim('n', min=1, max=4096)},), verbose=False)"
    )
    subprocess.run(["python", "-c", export], cwd=folder, check=True, capture_output=True)
    for name, epochs in (("before", 1), ("after", 2)):
        flags = ["--out", f"runs/{name}", "--models", "2", "--epochs", str(epochs), "--fail-on", "never"]
        subprocess.run(["memorisk", "audit", "classifier", "DATA", *flags], cwd=folder, check=True, capture_output=True)


def told(command: str, expected: Expected, folder: Path) -> bool:
    """Run it; say how it went."""
    done = run(command, expected, folder, checkout=ROOT)
    print(f"{'ok' if done.right else 'WRONG'}  exit {done.code}  {done.seconds:5.1f} s  {done.typed}", flush=True)
    if not done.right:
        print(done.output)
    return done.right


def main() -> int:
    """All of the pages named, by default the README's; 1 where one is wrong."""
    os.environ["PATH"] = f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["MEMORISK_CACHE"] = str(folder / "cache")
        inputs(folder)
        pages = sys.argv[1:] or ["README.md"]
        for command in commands("\n".join((ROOT / page).read_text() for page in pages)):
            key = next((key for key in EXPECTED if command.startswith(key)), None)
            if key is None:
                print(f"WRONG  {command}: .ci/readme.py does not know what is expected of it")
                wrong += 1
            else:
                wrong += sum(not told(command, expected, folder) for expected in EXPECTED[key])
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
