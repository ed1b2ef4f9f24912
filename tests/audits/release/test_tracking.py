"""Every finished run in a tracker, once, without ids, and without a network."""

import importlib.util
import json
import socket
from pathlib import Path

import pandas as pd
import pytest

from memorisk.audits.release.statement import make_statement
from memorisk.audits.release.tracking import figures_of, record_of, safe_settings, track
from memorisk.runs.errors import InputError
from tests.commands import answer, refusal

KINDS = ("clean", "copies", "filter", "quality", "watch", "losses", "feature")
HAS = {name: importlib.util.find_spec(library) is not None
       for name, library in (("mlflow", "mlflow"), ("tensorboard", "tensorboard"), ("wandb", "wandb"))}  # fmt: skip


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for an address elsewhere fails; a socket between processes of this machine does not."""
    real = socket.socket.connect

    def connect(self, address):
        assert self.family == socket.AF_UNIX or address[0] in ("127.0.0.1", "::1"), address
        return real(self, address)

    def ask(host, *rest, **how):
        assert host in (None, "localhost", "127.0.0.1", "::1"), host
        return asked(host, *rest, **how)

    asked = socket.getaddrinfo
    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", ask)


def contents(folder: Path) -> bytes:
    """All bytes below a folder, and all names, but for MLflow's own note of where its store lies, and the lock."""
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and not p.name.endswith(".lock")]
    names = "\n".join(str(p.relative_to(folder)) for p in files).encode()
    return names + b"".join(p.read_bytes() for p in files if p.name != "meta.yaml")


@pytest.mark.parametrize("kind", ["mlflow", "tensorboard", "wandb"])
def test_a_run_is_logged_once_without_ids(runs: Path, tmp_path: Path, kind: str, offline, capsys) -> None:
    if not HAS[kind]:
        pytest.skip(f"{kind} is not installed")
    names = KINDS if kind == "mlflow" else ("clean", "feature")
    command = ("track", *(f"runs/{name}" for name in names), "--to", f"{kind}:{tmp_path / 'store'}")
    code, said, _ = answer(capsys, *command)
    assert code == 0
    assert said.count(": logged to ") == len(names)
    before = contents(tmp_path / "store")
    code, said, _ = answer(capsys, *command)
    assert said.count(": was logged before to ") == len(names)
    assert contents(tmp_path / "store") == before
    for secret in (b"train0", b"held0", b"DOE", b"net.safetensors", b"report.html", str(runs).encode()):
        assert secret not in before
    name = socket.gethostname()
    assert kind != "tensorboard" or not [p for p in (tmp_path / "store").rglob("events*") if name in p.name]


def test_mlflow_holds_the_figures_of_the_statement(runs: Path, tmp_path: Path, offline) -> None:
    pytest.importorskip("mlflow")
    from memorisk.audits.tracker_libraries import mlflow_client

    track(["runs/clean", "runs/watch"], to=f"mlflow:{tmp_path / 'store'}", with_report=True)
    client = mlflow_client(tmp_path / "store")
    experiment = client.get_experiment_by_name("memorisk").experiment_id
    logged = {run.data.tags["kind"]: run for run in client.search_runs([experiment])}
    assert logged.keys() == {"synthetic", "watch"}
    for name, run in (("clean", logged["synthetic"]), ("watch", logged["watch"])):
        (audit,) = make_statement(f"runs/{name}").audits
        assert run.data.metrics == pytest.approx(dict(figures_of(audit)))
        assert run.data.tags["verdict"] == audit.status
        assert [f.path for f in client.list_artifacts(run.info.run_id)] == ["report.html"]
    assert logged["synthetic"].data.metrics["found/exact_low"] > 0
    assert logged["synthetic"].data.params["recall"] == "0.8"
    client.set_tag(logged["watch"].info.run_id, "memorisk.whole", "no")  # as a killed command leaves one
    (again,) = track("runs/watch", to=f"mlflow:{tmp_path / 'store'}")
    assert again.new
    assert len(client.search_runs([experiment])) == 2


def test_wandb_keeps_a_record_and_nothing_of_the_machine(runs: Path, tmp_path: Path, offline, monkeypatch) -> None:
    if not HAS["wandb"]:
        pytest.skip("wandb is not installed")
    monkeypatch.setenv("WANDB_MODE", "online")  # whatever the user's environment says
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (found,) = track("runs/clean", to=f"wandb:{tmp_path / 'store'}")
    files = [p for p in (tmp_path / "store" / found.name).rglob("*") if p.is_file()]
    assert [p.suffix for p in files] == [".wandb"]
    assert files[0].parent.name.startswith("offline-run-")
    assert not (tmp_path / "home").exists()
    told = files[0].read_bytes()
    assert b"copies_at_most_high" in told
    for secret in (socket.gethostname().encode() + b'"', str(tmp_path).encode(), b"pytest"):
        assert secret not in told


def test_runs_that_no_statement_is_made_of_are_logged_by_their_tables(tmp_path: Path) -> None:
    bench, training = tmp_path / "bench", tmp_path / "training"
    (bench / "tables").mkdir(parents=True)
    (bench / "config.yaml").write_text("run: {benchmark: reid}\nsize: 64\nimages: /data/secret\ndetectors: [a]\n")
    pd.DataFrame({"detector": ["LCMem", "ssim"], "auc": [0.9, 0.6], "auc_low": [0.8, float("nan")]}).to_parquet(
        bench / "tables" / "leaderboard.parquet"
    )
    pd.DataFrame({"patient": ["p1"], "image": ["i1"], "score": [1.0]}).to_parquet(bench / "tables" / "pairs.parquet")
    record = record_of(bench)
    assert record.kind == "bench-reid"
    assert record.status == ""
    assert dict(record.figures) == {
        "leaderboard/lcmem/auc": 0.9, "leaderboard/lcmem/auc_low": 0.8, "leaderboard/ssim/auc": 0.6,
    }  # fmt: skip
    assert dict(record.settings) == {"size": 64}
    training.mkdir()
    (training / "config.yaml").write_text("run: {backbone: x}\n")
    held = {"accuracy": 0.5, "patients": {"p1": 1.0}, "list": [1, 2]}
    (training / "training.json").write_text(json.dumps({"epochs": 3, "held_out": held, "name": "x"}))
    assert dict(record_of(training).figures) == {"epochs": 3.0, "held_out/accuracy": 0.5}
    (training / "log.jsonl").write_text('{"event": "started"}\n')
    with pytest.raises(InputError, match="has not finished"):
        record_of(training)


def test_settings_that_may_name_somebody_stay_out(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "meier").mkdir()
    config = {
        "size": 64, "lr": 1e-3, "redact": False, "optimizer": "adam", "images": "meier", "out": "x", "mark": "meier",
        "group_from": "(.*)", "target": "a/b", "note": "Meier, Hans", "place": "a:b", "where": "meier", "list": ["a"],
        "labels_csv": "meier", "model": "meier", "path": "C:\\x",
    }  # fmt: skip
    assert safe_settings(config) == {"size": 64, "lr": 1e-3, "redact": False, "optimizer": "adam"}


def test_a_server_that_does_not_answer_is_said_in_a_line(runs: Path, capsys, monkeypatch) -> None:
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    said = refusal(capsys, "track", "runs/clean", "--to", f"mlflow:http://127.0.0.1:{port}", code=3)
    assert "did not take the run" in said
    if importlib.util.find_spec("sqlalchemy") is None:
        assert "name a folder" in refusal(capsys, "track", "runs/clean", "--to", "mlflow:sqlite:///x.db")


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("mlfow:x", "Did you mean 'mlflow'"),
        ("mlflow", "names no place"),
        ("wandb:https://api.wandb.ai", "only kept in a folder"),
        ("tensorboard:s3://x", "only kept in a folder"),
        ("mlflow:ftp://x", "takes a folder"),
        ("wandb:scores.parquet", "is a file"),
        ("tensorboard:runs/clean/logs", "lies inside the run"),
        ("tensorboard:clean/logs", "lies inside clean, which the run read"),
    ],
)
def test_a_place_that_is_none_is_refused_before_anything_is_logged(runs: Path, tmp_path, capsys, to, said) -> None:
    ok = f"tensorboard:{tmp_path / 'ok'}"
    assert said in refusal(capsys, "track", "runs/clean", "--to", ok, to)
    assert not (tmp_path / "ok").exists()
