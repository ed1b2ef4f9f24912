"""What is read when something is released, and of runs at a URL: statements, sealed results, indexes and claims."""

import contextlib
import json
import shutil
import zlib
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from memorisk.audits.release.gate import gate
from memorisk.audits.release.records import record_of
from memorisk.audits.release.stating import state
from memorisk.report.model_card import model_card
from memorisk.report.statement import content_sha256, read_statement
from memorisk.runs.checksums import SEAL, sealed_files, write_seal
from memorisk.runs.claim import CLAIM
from memorisk.runs.errors import MemoriskError
from memorisk.runs.kept import kept_run, read_run
from memorisk.runs.run_index import INDEX
from tests.fuzz.folders import made, of_folder
from tests.fuzz.packing import by_name, inside_json
from tests.fuzz.target import Target

for _module in ("runs.mirror", "runs.pushing", "runs.storage", "images.sources", "images.store"):
    import_module(f"memorisk.{_module}")  # now, while imports are instrumented

_OWN = ("verdict.json", "summary.json", "config.yaml")
_FILES = (
    *(f"clean/{name}" for name in (*_OWN, "log.jsonl", SEAL, "per_image.parquet")),
    *(f"filter/{name}" for name in ("filter.json", *_OWN)),
    *(f"watch/{name}" for name in ("watch.jsonl", "looks.parquet", "config.yaml")),
    *(f"quality/{name}" for name in ("quality.json", "tables/quality.parquet", "config.yaml")),
    *(f"feature/{name}" for name in ("verdict.json", "config.yaml")),
    *(f"losses/{name}" for name in _OWN),
)


def released_runs(folder: Path) -> Path:
    """A finished run of every kind that a statement knows."""
    from tests.audits.release.conftest import make_runs

    make_runs(folder)
    return folder / "runs"


def _chosen(data: bytes) -> str:
    return _FILES[data[0] % len(_FILES) if data else 0]


def run_seeds(folder: Path) -> list[bytes]:
    """The files of every kind of run as they are."""
    runs = made(released_runs)
    for kind in sorted({file.partition("/")[0] for file in _FILES}):
        _ask_run(runs / kind)
    return [bytes([k]) + (runs / file).read_bytes() for k, file in enumerate(_FILES)]


def ask_run(data: bytes, folder: Path) -> None:
    """A run of which one file was changed, sealed again unless it is the seal."""
    kind, _, name = _chosen(data).partition("/")
    run = folder / "run"
    shutil.copytree(made(released_runs) / kind, run)
    (run / name).write_bytes(data[1:])
    if name == "filter.json":
        with contextlib.suppress(ValueError, RecursionError, AttributeError):
            told = json.loads(data[1:])
            (run / "verdict.json").write_text(json.dumps({k: v for k, v in told.items() if k != "kept"}))
    if name != SEAL and (run / SEAL).is_file():
        write_seal(run, sealed_files(run))
    _ask_run(run)


def _ask_run(run: Path) -> None:
    """What a statement and its card, or a tracker say of it."""
    with contextlib.chdir(run):  # settings name folders from here: there are none
        if (run / "config.yaml").stat().st_size % 4 == 0:
            record_of(run)
        else:
            model_card(state(run))


def repack_run(data: bytes, change: Callable[[bytes, int], bytes], size: int) -> bytes:
    """The file that is meant stays; it is changed as its kind asks for."""
    return data[:1] + by_name(Path(_chosen(data)).suffix, data[1:], change, size - 1)


def statement_seeds(folder: Path) -> list[bytes]:
    """Statements of one run and of several."""
    runs = made(released_runs)
    found = []
    for kinds in (("clean",), ("filter",), ("watch", "quality", "losses")):
        file = folder / f"{kinds[0]}.json"
        file.write_text(json.dumps(state([runs / kind for kind in kinds]).as_json()))
        read_statement(file)
        found.append(file.read_bytes())
    return found


def ask_statement(data: bytes, folder: Path) -> None:
    """The gate's answer, whatever the statement holds, and its card."""
    file, image = folder / "privacy-statement.json", folder / "a.png"
    file.write_bytes(data)
    image.write_bytes(b"an image")
    for require in ("pass", "not-fail"):
        answer = gate(file, images=[image], require=require)
        assert not answer.passed  # no statement is about this image
        assert all(said.isprintable() for said in (answer.line, *answer.notes)), answer
    model_card(read_statement(file))


def repack_statement(data: bytes, change: Callable[[bytes, int], bytes], size: int) -> bytes:
    """Changed inside, and mostly with the checksum of what it says now."""
    changed = inside_json(data, change, size)
    try:
        told = json.loads(changed)
        if not isinstance(told, dict) or zlib.crc32(changed) % 8 == 0:
            return changed
        told["content_sha256"] = content_sha256({k: v for k, v in told.items() if k != "content_sha256"})
        return json.dumps(told).encode("utf-8", "surrogatepass")[:size]
    except (ValueError, RecursionError):
        return changed


def run_at_url(folder: Path) -> Path:
    """A run that is kept at a URL, with an old claim of another machine."""
    with kept_run(f"file://{folder / 'there' / 'run'}", folder / "store") as out:
        for name in ("config.yaml", "verdict.json"):
            (out / name).write_text("{}\n")
    claim = {"token": "0", "host": "a", "pid": 1, "since": "x", "machine": "b", "started": "c"}
    (folder / "there" / "run" / CLAIM).write_text(json.dumps(claim | {"beat": "2026-01-01T00:00:00+00:00"}))
    return folder / "there" / "run"


def ask_url(folder: Path) -> None:
    """Read the run, then go on with it; nothing beside it is touched."""
    from memorisk.runs import claim

    claim._SETTLE_SECONDS = claim.WATCH_SECONDS = 0.0
    beside, store = folder.parent / "beside", folder.parent / "store"
    if made(run_at_url) != folder:
        beside.write_text("somebody's")
    else:
        return  # the seeds' own folder stays as it is
    with contextlib.suppress(MemoriskError):
        read_run(f"file://{folder}", store)
    try:
        with kept_run(f"file://{folder}", store) as out:
            assert (out / "config.yaml").is_file()
    finally:
        assert beside.read_text() == "somebody's"


def release_targets() -> Sequence[Target]:
    """Everything that is read around a release, and around a URL."""
    at_url = (INDEX, CLAIM, "verdict.json")
    return (
        Target("released", "a run of any kind: statement, track", run_seeds, ask_run, repack_run),
        Target("statement", "privacy-statement.json: gate", statement_seeds, ask_statement, repack_statement),
        of_folder("url", "index and claim of a run at a URL", run_at_url, at_url, ask_url),
    )
