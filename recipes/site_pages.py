"""What each page of the site needs to have its commands run by `recipes/run_docs.py`, and what is expected of them.

`Page.given` says which stand-in goes by a page's word; `Page.commands` what a command must do, by its beginning, or in
a sentence why it cannot be run here.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from doc_commands import Expected
from page_inputs import (
    FEATURE_CODE,
    FIT,
    GENERATOR_CODE,
    INFLUENCE_CODE,
    LATENTS_CODE,
    LCMEM_CODE,
    ROWS_CODE,
    short_generators,
    short_study,
    short_unique,
)

RECIPES = Path(__file__).resolve().parent
HUB = "downloads weights by name, and the hub is not reached from here"
SETUP = "sets up the environment that this runs in"
AUDIT = (0, 1)
LCMEM = " --backbone small_cnn@none --epochs 1 --stage2-epochs 1"
DATA_OF_PAPERS = "reads an official layout that is not here; `tests/images` reads miniatures of it"


@dataclass(frozen=True)
class Page:
    """A page.

    Attributes:
        given: Stand-ins (`stand_ins.STAND_INS`, or a folder within one) by the page's word.
        commands: What is expected, or why it cannot be run here, by the command's beginning.
        exchanged: Words exchanged in every command and in its Python, as (what, by what).
        alone: Each command in a folder of its own: a list of questions, no sequence.
        files: Small files that lie there.
        python: What the page's Python takes for granted, as code; None where it is not run.
        no_python: Why not.
        yaml: The page's YAML, cut down.
        yaml_name: The file that it stands for.
        always: Stand-ins that are placed for YAML and Python.
        after_python: Beginnings of commands that read what the page's Python writes.
    """

    given: dict[str, str] = field(default_factory=dict)
    commands: dict[str, Expected | str] = field(default_factory=dict)
    exchanged: tuple[tuple[str, str], ...] = ()
    alone: bool = False
    files: dict[str, str] = field(default_factory=dict)
    python: str | None = None
    no_python: str = "parts of a program, to be put into the reader's own"
    yaml: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    yaml_name: str = "study.yaml"
    always: tuple[str, ...] = ()
    after_python: tuple[str, ...] = ()


EVERYWHERE = (
    ("--size 224", "--size 32"),
    ("--size 64", "--size 32"),
    ("--size SIZE", "--size 32"),
    ("--images N", "--images 20"),
    ("--images 1000", "--images 20"),
    ("--steps 20000", "--steps 20"),
    ("resnet50@resnet50.safetensors", "small_cnn@none"),
    ("resnet50@FILE", "small_cnn@none"),
    ("convnext_tiny@none", "small_cnn@none"),
)
DEFAULTS: dict[str, Expected | str] = {
    "python -m pip": SETUP,
    "make": SETUP,
    ". .venv": SETUP,
    "memorisk audit classifier": Expected(AUDIT, "Report: ", " --epochs 1 --models 4"),
    "memorisk audit synthetic": Expected(AUDIT, "Report: ", " --plants 5"),
    "memorisk audit feature": Expected(AUDIT, "Report: ", " --n-controls 30"),
    "memorisk audit losses": Expected(AUDIT, "Report: "),
    "memorisk bench detectors": Expected(
        (0,), cut=" --epochs 1 --frozen-epochs 0 --measures euclidean cosine --specificity 0.7"
    ),
    "memorisk bench copies": Expected((0,), cut=" --families rotation jpeg"),
    "memorisk train detector": Expected((0,), "detector", " --epochs 1 --frozen-epochs 0"),
    "memorisk train autoencoder": Expected((0,), "autoencoder", " --epochs 1"),
    "memorisk train generator": Expected((0,), "generator", " --snapshot-every 10"),
    "memorisk train classifier": Expected((0,), cut=" --epochs 1"),
    "memorisk generate": Expected((0,), "set: ", " --sampling-steps 5"),
    "memorisk synthesize": Expected(AUDIT, "Ledger: ", " --sampling-steps 5 --most-tries 2"),
    "memorisk filter": Expected(AUDIT, "Report: "),
    "memorisk quality": Expected((0,), "Quality says nothing about privacy"),
    "memorisk explain": Expected((0,), "ratio"),
    "memorisk watch": Expected((0,), cut=" --images 10 --sampling-steps 5"),
    "memorisk images check": Expected(AUDIT, "class"),
    "memorisk images mark": Expected((0,), ".png"),
}


_SCANS = {"scans": "atlas", "train": "train", "synthetic": "synthetic", "others": "others"}
_SETS = {"TRAIN": "train", "SYNTHETIC": "synthetic", "SET": "synthetic", "IMAGES": "others", "HELD_OUT": "others"}
_SETS |= {"OTHERS": "others", "TEST": "others"}
_FEATURE = (("MODEL ", "net.onnx "), ("MARK", "A"), ("NORMALISATION", "0.5/0.25"))
PAGES: dict[str, Page] = {
    "bench-detectors.md": Page(
        given={"IMAGES": "atlas"},
        commands={
            "memorisk bench detectors digits": Expected(
                (0,), cut=" --epochs 1 --frozen-epochs 0 --measures euclidean --sample 500"
            )
        },
    ),
    "bench-reid.md": Page(
        given={"IMAGES": "atlas", "runs/lcmem": "lcmem"},
        exchanged=((" random ", " "),),
        commands={"memorisk bench copies IMAGES": Expected((0,), cut=" --test-images 40")},
    ),
    "cluster.md": Page(
        commands={
            "memorisk": "needs a scheduler; `recipes/cluster_truth.py` runs such on real Dask clusters",
            "python recipes/slurm_dask.py": Expected(
                (0,), "#SBATCH", replaced=(("slurm_dask.py ", "slurm_dask.py --script "),), in_checkout=True
            ),
        }
    ),
    "compare.md": Page(
        given={"FIRST": "run", "SECOND": "run-two", "DATA": "labelled"},
        commands={
            "memorisk audit classifier DATA": Expected(AUDIT, "small_resnet", " --epochs 1 --models 2"),
        },
    ),
    "defences.md": Page(
        given={"DATA": "labelled"},
        exchanged=(
            ("NETWORK", "small_vit"),
            ("--epochs EPOCHS", "--epochs 1"),
            ("--epsilon 8 3 1", "--epsilon 8"),
            (" lora dp-lora dp-full", " lora dp-lora"),
        ),
        commands={
            "memorisk audit classifier DATA": Expected(AUDIT, "dp-lora-8", " --epochs 1 --models 2 --model small_vit"),
            "memorisk train classifier": Expected((0,), "dp-lora-8", " --epochs 1 --model small_vit"),
            "memorisk audit classifier MODELS": Expected(AUDIT, "Report: ", " --models 4"),
        },
    ),
    "detectors-training.md": Page(
        given=_SCANS,
        always=("scans",),
        python="import numpy as np\nimages = np.random.default_rng(0).integers(0, 255, (4, 32, 32, 1), dtype=np.uint8)",
        exchanged=(
            ("size=224)", "size=32, epochs=1, frozen_epochs=0)"),
            ('out="runs/detector"', 'out="runs/from-python"'),
        ),
    ),
    "explain.md": Page(
        given={"RUN": "run", "labelled": "labelled"},
        exchanged=(("explain RUN", "explain RUN --images labelled"),),
        always=("RUN",),
    ),
    "extending.md": Page(
        given={"FOLDER": "generator", "train": "train"},
        always=("train",),
        no_python="run by tests/test_extending.py",
        commands={
            "memorisk audit classifier digits --model one_layer": "a network of the page's Python",
        },
    ),
    "feature.md": Page(
        given={"net.onnx": "net.onnx", "IMAGES": "probes", "image.png": "image.png"},
        exchanged=(
            ("--size 64", "--size=64"),
            *_FEATURE,
            ("mark IMAGE ", "mark image.png "),
            ("mark PROBE ", "mark image.png "),
        ),
        commands={
            "memorisk audit feature outputs.npz": Expected(AUDIT, "Report: ", replaced=("--out RUN", "--out RUN-2")),
        },
        python=FEATURE_CODE,
        after_python=("memorisk audit feature outputs.npz",),
        always=(),
    ),
    "features.md": Page(
        given=_SCANS,
        always=("scans",),
        python="from memorisk.images.options import ImageOptions",
        exchanged=(("ImageOptions(size=224)", 'ImageOptions(size=32, group_from=r"^(\\d+)_")'),),
    ),
    "filter.md": Page(
        given=_SETS | {"DETECTOR": "detector/detector"},
        commands={"memorisk report": Expected((0,), "report.html")},
    ),
    "generate.md": Page(
        given={"GENERATOR": "generator", "TRAIN": "train", "TEST": "others", "DETECTOR": "detector/detector"},
        commands={
            "memorisk audit synthetic TRAIN OUT --held-out TEST --paired": "needs a generator of pseudo-conditions",
        },
    ),
    "generators-gan.md": Page(
        given=_SCANS,
        commands={
            "memorisk train generator": Expected(
                (0,), "generator", " --snapshot-every 10 --gan-channels 256 --gan-channels-max 16"
            ),
            "memorisk generate": Expected((0,), "set: "),
        },
    ),
    "generators-sampling.md": Page(
        commands={
            "memorisk train generator": HUB,
            "python benchmarks": "a measurement of speed, in `benchmarks/README.md`",
        },
        given={"runs/dit": "generator"},
        exchanged=((", labels=np.zeros(64, dtype=np.int64)", ""), ("guidance=2.0", "guidance=1.0")),
        python="",
        always=("runs/dit",),
    ),
    "generators.md": Page(
        given=_SCANS,
        always=("scans",),
        commands={
            "accelerate": "wants four processes with a GPU each; `recipes/generator_processes.py` runs two on a CPU"
        },
        python=GENERATOR_CODE,
        exchanged=(
            ("steps=20_000", "steps=4, snapshot_every=2"),
            ("steps=5000", "steps=4, snapshot_every=2"),
            ('out="runs/dit"', 'out="runs/from-python"'),
            (
                FIT,
                f"from page_rows import GeneratorOptions, others, rows, store\n{FIT}",
            ),
        ),
        files={"page_rows.py": ROWS_CODE},
    ),
    "index.md": Page(
        alone=True,
        always=("train",),
        given=_SETS
        | {
            "DATA": "labelled",
            "ATLAS": "atlas",
            "TRAINING": "generator",
            "train": "train",
            "RUN": "run",
            "PROBES": "probes",
            "FIRST": "run",
            "SECOND": "run-two",
        }
        | {
            "net.onnx": "net.onnx",
            "image.png": "image.png",
            "lcmem": "lcmem/detector",
            "generator": "generator",
            "losses.parquet": "losses.parquet",
        },
        commands={
            "memorisk audit losses": Expected(AUDIT, "Report: ", replaced=("FILE", "losses.parquet")),
            "memorisk audit feature": Expected(
                AUDIT,
                "Report: ",
                " --n-controls 30",
                (("MODEL", "net.onnx"), ("imagenet", "0.5/0.25"), ("text:NAME", "text:NA")),
            ),
            "memorisk images mark": Expected((0,), "seen.png", replaced=("IMAGE ", "image.png ")),
            "memorisk explain": Expected((0,), "ratio", " --images DATA"),
            "memorisk audit classifier DATA --intervene": Expected(
                AUDIT, "Report: ", " --epochs 1 --models 4", ("grayscale --classes NAME", "blur --classes benign")
            ),
            "memorisk audit classifier DATA --regime": Expected(
                AUDIT, "dp-lora-8", " --epochs 1 --models 2 --model small_vit"
            ),
            "memorisk train classifier": Expected((0,), "dp-lora-8", " --epochs 1 --model small_vit"),
            "memorisk filter": Expected(AUDIT, "Report: "),
            "memorisk synthesize": Expected(
                AUDIT,
                "Ledger: ",
                " --sampling-steps 5 --most-tries 2 --families jpeg --miss-rate 0.1",
                ("--generator FOLDER", "--generator generator"),
            ),
            "memorisk watch": Expected((0,), cut=" --images 10 --sampling-steps 5"),
            "memorisk train generator DATA --out RUN": Expected((0,), "generator", " --steps 20 --snapshot-every 10"),
            "memorisk train generator DATA --out RUN --watch": Expected(
                (0,), "generator", " --steps 20 --snapshot-every 10 --watching.images 10 --watching.sampling-steps 5"
            ),
            "memorisk generate RUN": Expected(
                (0,), "set: ", " --sampling-steps 5", ("generate RUN", "generate generator")
            ),
            "memorisk bench reid": Expected(
                (0,), replaced=(("FOLDER", "lcmem"), ("DATA", "ATLAS --group-from '^(\\d+)_'"))
            ),
            "memorisk bench copies": Expected(
                (0,),
                cut=" --families rotation jpeg --test-images 40",
                replaced=(("FOLDER", "lcmem"), ("DATA", "ATLAS")),
            ),
            "memorisk bench detectors": Expected(
                (0,), cut=" --measures euclidean cosine --specificity 0.7", replaced=("DATA", "ATLAS")
            ),
            "memorisk study rare-distinctive": "its file is that of study.md, where it is run",
            "memorisk study unique-features": "its file is that of unique-features.md, where it is run",
            "memorisk study generators": "its file is that of study-generators.md, where it is run",
            "memorisk report": Expected((0,), "report.html"),
            "memorisk report RUN --redact": Expected((0,), "report-redacted.html"),
            "memorisk statement": Expected(AUDIT),
            "memorisk gate STATEMENT": "stands for the command of release.md, where it is run",
            "python recipes/dependencies.py": Expected((0,), "licence", in_checkout=True),
        },
    ),
    "influence.md": Page(python=INFLUENCE_CODE),
    "inputs.md": Page(
        given={"DATA": "labelled"},
        commands={"memorisk images check ham10000": DATA_OF_PAPERS, "memorisk images check celeba": DATA_OF_PAPERS},
    ),
    "intervention.md": Page(given={"DATA": "coloured"}),
    "latents.md": Page(
        given=_SCANS | {"autoencoder": "autoencoder"},
        always=("scans", "autoencoder"),
        commands={"memorisk train detector": Expected((0,), "detector", LCMEM)},
        python=LATENTS_CODE,
        exchanged=(("ImageOptions(size=64)", "ImageOptions(size=32)"),),
    ),
    "lcmem.md": Page(
        given=_SCANS,
        commands={
            "memorisk train detector scans/ --group-from '^(\\d+)_' --kind lcmem": Expected(
                (0,), "detector", " --epochs 1 --stage2-epochs 1 --encoder pixels:32 --sample-normalisation 1"
            ),
            "memorisk train detector scans/ --group-from '^(\\d+)_' --size 64": Expected(
                (0,), "detector", " --stage2-epochs 1", ("--epochs 60 --patience 25", "--epochs 1")
            ),
        },
        python=LCMEM_CODE,
    ),
    "losses.md": Page(
        exchanged=(("losses FILE", "losses losses.parquet"),),
        commands={
            "python recipes/losses_sklearn.py": Expected(replaced=("recipes/", f"{RECIPES}/")),
        },
        no_python="the core of `recipes/losses_sklearn.py`, which is run",
    ),
    "nothing-lost.md": Page(given={"RUN": "run"}),
    "own-training.md": Page(
        files={"own_training.py": (RECIPES / "own_training.py").read_text("utf-8")},
        commands={
            "memorisk audit classifier digits": Expected(
                AUDIT, "Report: ", " --models 4", ("epochs 5 --out ../runs/own", "epochs 1 --out own")
            ),
            "memorisk audit classifier manifest.csv": "needs weights to be released; defences.md makes and audits some",
            "memorisk audit classifier IMAGES": "stands for a module of the reader's",
        },
        no_python="a signature; `recipes/own_training.py` is run",
    ),
    "quality.md": Page(given=_SETS),
    "start.md": Page(
        given={"DATA": "labelled"},
        commands={
            "python3 -m venv": SETUP,
            "memorisk audit classifier digits": Expected((0,), "NOT READY FOR RELEASE"),
            "memorisk audit classifier DATA --out runs/mine --dry-run": Expected(says="trainings"),
            "memorisk report": Expected((0,), "report-redacted.html"),
        },
    ),
    "workflows.md": Page(
        commands={"memorisk": "one command reads what another wrote: `.ci/readme.py docs/workflows.md` runs all"},
    ),
    "study-generators.md": Page(given=_SCANS, always=("scans",), yaml=short_generators),
    "costs.md": Page(commands={"memorisk audit classifier digits": Expected(says="trainings")}),
    "near-copies.md": Page(commands={"python recipes/near_copies.py": "its output is results/near_copies.md"}),
    "licences.md": Page(commands={"python recipes/dependencies.py": "asks the package index"}),
    "offline.md": Page(
        commands={
            "python": "gathers from the package index and the hub",
            "memorisk": "needs weights out of a bundle that was gathered elsewhere",
            "docker": "needs Docker and a network",
        }
    ),
    "release.md": Page(
        given=_SETS | {"RUN": "run"},
        commands={
            "memorisk statement": Expected(AUDIT),
            "memorisk gate release": Expected(AUDIT),
            "memorisk gate STATEMENT": "stands for the line above it, with weights",
            "memorisk release FILE": "`tests/audits/release/test_released_weights.py` runs it",
            "memorisk track": Expected((0,), replaced=("mlflow:FOLDER", "tensorboard:board")),
            "python -c": Expected((0,)),
        },
    ),
    "report.md": Page(given={"RUN": "run"}, commands={"memorisk report": Expected((0,), "report-redacted.html")}),
    "signing.md": Page(
        commands={
            "memorisk": "needs a key; `tests/audits/release/test_signed_release.py` runs these three commands",
        }
    ),
    "storage.md": Page(commands={"memorisk": "needs a bucket; `tests/images` and `tests/runs` ask real servers"}),
    "study.md": Page(given={"scans": "coloured"}, always=("scans",), yaml=short_study),
    "synthesize.md": Page(
        given=_SETS | {"GENERATOR": "generator", "DETECTOR": "detector/detector"},
        commands={
            "memorisk synthesize --table": Expected((0,), replaced=("RUN", "OUT")),
            "memorisk report": Expected((0,), "report.html"),
        },
    ),
    "synthetic.md": Page(given=_SETS, commands={"memorisk report": Expected((0,), "report.html")}),
    "unique-features.md": Page(
        yaml=short_unique,
        yaml_name="unique.yaml",
        commands={
            "memorisk study unique-features --config recipes": Expected((0,), "Table 3", in_checkout=True),
        },
    ),
    "validity.md": Page(commands={"python recipes/validity.py": "ten minutes; its output is the page"}),
    "watch.md": Page(given={"TRAINING": "generator", "train": "train"}, always=("train",)),
}
