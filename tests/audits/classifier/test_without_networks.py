"""What works on tables and statements alone starts without PyTorch, and refuses a bad table before SciPy is loaded."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from memorisk.audits.classifier.evidence import write_scores
from tests.audits.made_evidence import twin_evidence

IN_ONE_PROCESS = """
import json, sys
from memorisk.cli.main import main
heavy, loaded = ("torch", "timm", "torchvision"), {}
for command in json.loads(sys.argv[1]):
    code = main(command)
    loaded[" ".join(command[:2])] = [code, [m for m in heavy if m in sys.modules]]
print(json.dumps(loaded))
"""
"""Commands one after the other: what the last one has loaded holds what any before it did."""


def test_losses_compare_report_statement_and_gate_load_no_network_library(tmp_path: Path) -> None:
    evidence = twin_evidence(sizes={"a": 24, "b": 40}, n_test=12, n_seeds=4, planted={"a": 1.0}, group_size=2)
    write_scores(tmp_path / "losses.parquet", evidence)
    save_file({"weight": np.zeros(3, np.float32)}, tmp_path / "released.safetensors")
    commands = [
        ["audit", "losses", "losses.parquet", "--out", "run", "--json"],
        ["compare", "run", "run", "--json"],
        ["report", "run"],
        ["statement", "run", "--out", "stated", "--json"],
        ["gate", "stated", "--weights", "released.safetensors", "--json"],
    ]
    done = subprocess.run(
        [sys.executable, "-c", IN_ONE_PROCESS, json.dumps(commands)], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert len(loaded) == len(commands)
    for command, (code, modules) in loaded.items():
        assert modules == [], command
        assert code in (0, 1), (command, done.stderr)


def test_a_bad_table_of_losses_is_refused_without_scipy_and_matplotlib(tmp_path: Path) -> None:
    (tmp_path / "losses.csv").write_text("image,label\n")
    code = "import sys; from memorisk.cli.main import main; main(['audit', 'losses', 'losses.csv', '--out', 'run']); "
    code += "print([m for m in ('scipy._lib._array_api', 'scipy.special', 'scipy.stats', 'matplotlib', 'jinja2', "
    code += "'sklearn', 'numba', 'PIL.ImageDraw') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert "lacks the columns" in done.stderr
    assert done.stdout == "[]\n"
