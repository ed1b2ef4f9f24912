"""Every command of the command line, given in a folder of poisoned modules, runs none of them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml
from cyclopts import App
from PIL import Image

from memorisk.cli.program import app
from tests.commands import answer, environment
from tests.poison import marked, poison

GROUPS = ("--group-from", r"^(\d+)_")
DETECTOR = "../out/detector/detector"
COMMANDS: dict[tuple[str, ...], str] = {
    ("images", "check"): ".",
    ("images", "mark"): "train/00000000_000.png --mark A --out ../mark.png",
    ("audit", "classifier"): "labelled --models 2 --epochs 1 --processes 2 --fail-on never --out ../out/run",
    ("audit", "generator"): "labelled --models 2 --steps 2 --levels 2 --draws 1 --batch-size 4 --processes 1 "
    "--fail-on never --out ../out/twins",
    ("audit", "losses"): "../out/run/scores.parquet --out ../out/losses --fail-on never",
    ("audit", "patient"): "../out/run benign/00000300_000.png --out ../out/patient.html",
    ("audit", "feature"): "own:network --mark A --normalise none --probes train --n-controls 5 --fail-on never "
    "--out ../out/feature --python-path ../code",
    ("train", "classifier"): "labelled --model mlp1 --epochs 1 --out ../out/classifier",
    (
        "train",
        "detector",
    ): "atlas {groups} --backbone small_cnn@none --epochs 1 --frozen-epochs 0 --out ../out/detector",
    ("train", "autoencoder"): "atlas {groups} --epochs 1 --out ../out/autoencoder",
    ("train", "generator"): "train {groups} --network tiny/8 --steps 2 --snapshot-every 2 --batch-size 4 "
    "--out ../out/generator",
    ("generate",): "own:draw ../out/drawn --images 8 --python-path ../code",
    (
        "audit",
        "synthetic",
    ): "train ../out/drawn --held-out held {groups} --plants 2 --plant-kinds exact --fail-on never "
    "--out ../out/synthetic",
    ("quality",): "train ../out/drawn --held-out held {groups} --features pixels:8 --out ../out/quality",
    ("filter",): "train ../out/drawn ../out/kept --detector {detector} --calibration held --miss-rate 0.5 "
    "--families rotation --plant-kinds exact {groups} --fail-on never",
    ("synthesize",): "train ../out/loop --generator own:draw --python-path ../code --images 4 --detector {detector} "
    "--calibration held --miss-rate 0.5 --families rotation {groups} --dry-run",
    ("watch",): "steps --train train --held-out held --images 8 --quality none --looks 1 --out ../out/watch --dry-run",
    ("bench", "detectors"): "atlas {groups} --backbones small_cnn@none --losses none --specificity 0.5 --dry-run "
    "--out ../out/detectors",
    ("bench", "reid"): "atlas --detectors mse {groups} --out ../out/reid",
    ("bench", "copies"): "atlas --detectors mse {groups} --test-images 20 --families rotation --out ../out/copies",
    ("plan", "pairs"): "--synthetic 1000 --train 1000",
    ("study", "rare-distinctive"): "--config ../code/rare.yaml --dry-run --out ../out/rare",
    ("study", "unique-features"): "--config ../code/unique.yaml --dry-run --out ../out/unique",
    ("study", "generators"): "--config ../code/generators.yaml --dry-run --out ../out/generators",
    ("explain",): "../out/run --features before",
    ("report",): "../out/run --redact",
    ("compare",): "../out/run ../out/losses",
    ("release",): "train ../out/clean",
    ("statement",): "../out/run --out ../out/release",
    ("gate",): "../out/release/privacy-statement.json --images ../out/drawn",
    ("track",): "../out/run --to tensorboard:../out/board",
    ("view",): "../out --port 65536",  # a server would run on: it is refused for its port, after it has read the runs
}
"""How each is given; one reads what those before it wrote."""
PROGRAM = """
import json, sys
from memorisk.cli.main import main
codes = []
for words in json.loads(sys.argv[1]):
    sys.argv = ["memorisk", *words]
    sys.stderr.write(f"{words}\\n")
    codes.append(main())
with open("../codes.json", "w") as file:
    json.dump(codes, file)
"""
"""The command, several times in one process: PyTorch is imported once."""
OWN = """
import numpy as np
import torch


def draw(seeds, labels):
    return np.stack([np.random.default_rng(int(s)).integers(0, 255, (16, 16), dtype=np.uint8) for s in seeds])


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(256, 2))
"""
STUDIES = {
    "rare": {
        "seeds": [1], "settings": {"epochs": 1}, "architectures": {"CNN": {"model": "small_cnn"}},
        "datasets": {"Labelled": {"images": "labelled"}},
    },
    "unique": {
        "settings": {"random": 0, "runs": 2, "highest": 1, "lowest": 1, "references": 2, "latent": 0, "profiled": 0},
        "datasets": {"Labelled": {"images": "labelled", "probes": "train", "networks": ["mlp1"]}},
    },
    "generators": {
        "settings": {"detectors": ["pixels:8"], "images": 8},
        "generator": {"kind": "dit", "network": "tiny/8", "steps": 2, "batch_size": 4},
        "datasets": {"Train": {"images": "train", "group_from": GROUPS[1], "held_out": 0.3}},
        "arms": {"all": {"training_images": "all"}},
    },
}  # fmt: skip


def commands(of: App, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command, by its words."""
    for name in of:
        if not name.startswith("-"):
            below = list(commands(of[name], (*above, name)))
            yield from below or [(*above, name)]


def people(folder: Path, numbers: range, images: int = 2) -> None:
    """Images of 16 x 16, named by patient and number."""
    folder.mkdir(parents=True)
    for number in numbers:
        own = np.random.default_rng(number).integers(40, 200, (4, 4)).repeat(4, 0).repeat(4, 1)
        for k in range(images):
            pixels = own + np.random.default_rng([number, k]).integers(0, 40, (16, 16))
            Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number:08}_{k:03}.png")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A poisoned folder with images in it; marks, code and results are beside it."""
    above = tmp_path_factory.mktemp("current")
    found = poison(above / "place", above / "marks")
    for name, numbers in (("train", range(20)), ("held", range(100, 120)), ("atlas", range(200, 224))):
        people(found / name, numbers)
    for label, numbers in (("benign", range(300, 316)), ("malignant", range(400, 416))):
        people(found / "labelled" / label, numbers, images=1)
    people(found / "steps" / "step-1", range(500, 510), images=1)
    (above / "code").mkdir()
    (above / "code" / "own.py").write_text(OWN)
    for name, study in STUDIES.items():
        (above / "code" / f"{name}.yaml").write_text(yaml.safe_dump(study))
    return found


def test_every_command_is_given_here() -> None:
    assert set(commands(app)) == set(COMMANDS)


def test_no_command_runs_a_file_of_the_current_folder(place: Path) -> None:
    typed = {name: given.format(groups=" ".join(GROUPS), detector=DETECTOR).split() for name, given in COMMANDS.items()}
    words = [[*name, *given] for name, given in typed.items()]
    script = place.parent / "program.py"  # its folder is first on the path, as that of the installed command is
    script.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(script), json.dumps(words)],
        cwd=place,
        env=environment(place.parent / "cache"),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert marked(place.parent / "marks") == []
    assert done.returncode == 0, done.stderr
    codes = json.loads((place.parent / "codes.json").read_text())
    refused = [name for name, code in zip(COMMANDS, codes, strict=True) if code not in (0, 1)]
    assert refused == [("view",)], done.stderr


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        (("generate", "--out", "out"), ""),
        (("generate", "--out", "out"), "dry-run: true\n"),
        (("generate", "own:draw", "out"), ""),
        (("synthesize",), "train: scans\nout: out\n"),
    ],
)
def test_a_dry_run_runs_no_generator_that_a_supplied_file_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...], lines: str
) -> None:
    ran = tmp_path / "ran"
    draw = "def draw(seeds, labels): return numpy.zeros((len(seeds), 8, 8), numpy.uint8)"
    (tmp_path / "own_draws.py").write_text(f"import numpy\nopen({str(ran)!r}, 'w').close()\n{draw}\n")
    file, named = tmp_path / "supplied.yaml", "own:draw" in command
    file.write_text(f"images: 4\n{lines}" + ("" if named else "generator: own_draws:draw\n"))
    words = [word.replace("own:draw", "own_draws:draw") for word in command]
    dry = () if "dry-run" in lines else ("--dry-run",)
    code, shown, error = answer(capsys, "--config", file, *words, *dry)
    if named:  # by the user
        assert (code, ran.exists()) == (0, True)
        assert "images: 4 of 8 x 8 x 1" in shown
    else:
        assert (code, ran.exists()) == (2, False)
        assert error.count("\n") == 1
        assert "names the generator own_draws:draw, whose code a dry run would run" in error
