"""What works on tables and statements alone starts without PyTorch: reading losses, comparing, reporting, stating."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from memorisk.audits.classifier.evidence import write_scores
from tests.audits.synthetic import twin_evidence

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
