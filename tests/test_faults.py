"""Killed runs, full disks, folders that cannot be written, two processes at once: nothing is lost, nothing is wrong."""

import fcntl
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from memorisk.images.sources.registry import load_manifest
from memorisk.runs.folder import check_out_folder
from tests.audits.synthetic.making import write_sets
from tests.commands import answer, entries, environment, memorisk, plain_images, refusal
from tests.thorough import thorough

TABLES = ("scores", "manifest", "per_image", "per_group", "per_class", "attacks")
RESULT = (*(f"{name}.parquet" for name in TABLES), "verdict.json", "summary.json", "report.html")


def result_bytes(run: Path) -> dict[str, bytes]:
    """Every file of a result; the log alone holds times, and config.yaml the folder's own name."""
    return {name: (run / name).read_bytes() for name in RESULT}


def command(images: Path, out: Path, *flags: object) -> list[str]:
    settings = ("--models", 4, "--epochs", 40, "--processes", 2, "--checkpoint-seconds", 0, "--fail-on", "never")
    return memorisk("audit", "classifier", images, "--out", out, *settings, *flags)


def start(arguments: list[str], cache: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        arguments,
        env=environment(cache),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def members(session: int) -> list[int]:
    """Living processes of a session: what a run started, whoever its parent is by now."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] not in "ZX":
            found.append(int(folder.name))
    return found


@pytest.fixture(scope="module")
def images(tmp_path_factory) -> Path:
    return plain_images(tmp_path_factory.mktemp("images") / "set", per_class=100)


@pytest.fixture(scope="module")
def undisturbed(images, drawn, tmp_path_factory) -> tuple[dict[str, bytes], float, dict[str, float]]:
    """The result of a run that nothing happened to, how long it took, and when each stage began."""
    folder = tmp_path_factory.mktemp("undisturbed")
    begun = time.monotonic()
    run = start(command(images, folder / "run"), folder / "cache")
    stages: dict[str, float] = {}
    signs = {"decoding": "cache/stores", "training": "run/logits", "scoring": "run/scores.parquet"}
    while run.poll() is None:
        for stage, sign in signs.items():
            if stage not in stages and (folder / sign).exists():
                stages[stage] = time.monotonic() - begun
        time.sleep(0.01)
    out, err = run.communicate()
    assert run.returncode == 0, err
    assert "Report:" in out
    return result_bytes(folder / "run"), time.monotonic() - begun, stages


@pytest.mark.thorough
@pytest.mark.parametrize("times", [2, pytest.param(10, marks=pytest.mark.slow)])
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see that no worker is left")
def test_kill_9_at_random_moments_changes_nothing(images, undisturbed, tmp_path, capsys, monkeypatch, times):
    expected, seconds, stages = undisturbed
    assert list(stages) == ["decoding", "training", "scoring"]
    rng = np.random.default_rng(20)
    # Of five: while it decodes, while it trains, twice at any time of an undisturbed run, and while it writes.
    training, writing = stages["scoring"] - stages["training"], seconds - stages["scoring"]
    plans: list[tuple[str, float, float]] = [
        ("cache/stores/.*.building", 0.0, 0.0),
        ("run/logits", 0.0, training / 2),
        ("", stages["decoding"], seconds),
        ("", stages["decoding"], seconds),
        ("run/scores.parquet", 0.0, writing),
    ]
    at_once = {"decoding": plans[0][0], "training": plans[1][0], "writing": plans[4][0]}
    kills, reached, number = 0, set(), 0
    # How long a stage takes hangs on what else the machine does: one that was missed is met in a folder of its own.
    while kills < times or (missed := sorted(at_once.keys() - reached) if kills < 2 * times else []):
        number += kills >= times
        folder = tmp_path / str(number)
        fresh = not folder.exists()
        folder.mkdir(exist_ok=True)
        run = start(command(images, folder / "run"), folder / "cache")
        sign, least, most = plans[0 if fresh else kills % len(plans)]
        if kills >= times:
            sign, least, most = at_once[missed[0]], 0.0, 0.0
        if sign:
            wait_for(run, folder, sign, at_most=3 * seconds)
        wait_for(run, folder, rng.uniform(least, most), at_most=3 * seconds)
        if run.poll() is None:
            os.kill(run.pid, signal.SIGKILL)
            kills += 1
            reached.add(stage_of(folder))
        else:  # it was done before its moment came
            number += 1
        run.communicate()
        deadline = time.monotonic() + 20
        while members(run.pid):
            assert time.monotonic() < deadline, "workers outlive the run that was killed"
            time.sleep(0.05)
        number += kills == times // 2
    assert reached == at_once.keys()
    for folder in sorted(tmp_path.iterdir()):
        if (folder / "run" / "checkpoints").is_dir():  # as a kill in the middle of a write leaves
            (folder / "run" / ".per_class.parquet.0.part").write_bytes(b"half of a table")
            (folder / "run" / "checkpoints" / ".tmpA1b2C3").write_bytes(b"half of a checkpoint")
        monkeypatch.setenv("MEMORISK_CACHE", str(folder / "cache"))
        code, _, err = answer(capsys, *command(images, folder / "run")[3:])
        assert (code, err) == (0, "")
        for name, data in result_bytes(folder / "run").items():
            assert data == expected[name], f"{name} of run {folder.name} differs"
        left = [e for e in entries(folder) if e.endswith(".part") or ".building" in e or "checkpoints/" in e]
        assert left == []


def wait_for(run: subprocess.Popen[str], folder: Path, plan: float | str, *, at_most: float) -> None:
    """Until so many seconds have passed, or a file of that pattern is there, or the run has ended."""
    begun = time.monotonic()
    while run.poll() is None and time.monotonic() - begun < at_most:
        if (time.monotonic() - begun >= plan) if isinstance(plan, float) else any(folder.glob(plan)):
            return
        time.sleep(0.005)


def stage_of(folder: Path) -> str:
    if (folder / "run" / "scores.parquet").exists():
        return "writing"
    return "training" if (folder / "run" / "logits").exists() else "decoding"


@pytest.mark.thorough
def test_a_training_goes_on_from_its_last_epoch(images, tmp_path, capsys, monkeypatch):
    """The training runs in the process that is killed, so that nobody ends it; many epochs, so that it is met."""
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    flags = ("--models", 2, "--epochs", 60, "--processes", 1, "--checkpoint-seconds", 0, "--fail-on", "never")

    def arguments(out: str) -> tuple[object, ...]:
        return ("audit", "classifier", images, "--out", tmp_path / out, *flags)

    assert answer(capsys, *arguments("undisturbed"))[0] == 0
    run = start(memorisk(*arguments("run")), tmp_path / "cache")
    wait_for(run, tmp_path, "run/checkpoints/*.safetensors", at_most=120)
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    assert list((tmp_path / "run" / "checkpoints").glob("*.safetensors"))
    code, _, err = answer(capsys, *arguments("run"))
    assert (code, err) == (0, "")
    trained = [line for line in log_of(tmp_path / "run") if line["event"] == "trained"]
    assert [line["resumed_from"] > 0 for line in trained] == [True, False]
    assert result_bytes(tmp_path / "run") == result_bytes(tmp_path / "undisturbed")


def log_of(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


@pytest.fixture
def small_disk(tmp_path):
    """Mount a tmpfs of so many kilobytes, and unmount it at the end."""
    mounted = []

    def mount(kilobytes: int) -> Path:
        folder = tmp_path / f"disk{len(mounted)}"
        folder.mkdir()
        found = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k,mode=0700", "tmpfs", folder],
            capture_output=True,
            check=False,
        )
        if found.returncode:
            pytest.skip("only root may mount a small file system to fill")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", folder], check=True)


def grow(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)


TINY = ("--models", 2, "--epochs", 1, "--fail-on", "never")


@pytest.mark.parametrize("processes", [1, thorough(2)])
def test_a_full_disk_under_the_run_folder(images, small_disk, tmp_path, capsys, processes):
    disk = small_disk(260)
    audit = ("audit", "classifier", images, *TINY, "--processes", processes, "--out")
    failed = refusal(capsys, *audit, disk / "run", code=3)
    assert "No space left" in failed or "no space left" in failed
    assert "what is done is kept" in failed
    assert [e for e in entries(disk) if e.endswith(".part")] == []
    assert not (disk / "run" / "verdict.json").exists()
    grow(disk)
    code, _, err = answer(capsys, *audit, disk / "run")
    assert (code, err) == (0, "")
    assert answer(capsys, *audit, tmp_path / "elsewhere")[0] == 0
    assert result_bytes(disk / "run") == result_bytes(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    "kilobytes",
    [
        thorough(4),
        thorough(8),
        thorough(16),
        thorough(40),
        thorough(80),
        160,
        thorough(300),
        thorough(400),
        thorough(520),
    ],
)
def test_disks_that_are_full_at_other_moments(images, small_disk, capsys, kilobytes):
    disk = small_disk(kilobytes)
    audit = ("audit", "classifier", images, *TINY, "--processes", 1, "--out", disk / "run")
    code, _, err = answer(capsys, *audit)
    assert code == 0 or (code == 3 and err.count("\n") == 1 and "what is done is kept" in err)
    assert [e for e in entries(disk) if e.endswith(".part")] == []


def test_a_full_disk_under_the_store(images, small_disk, tmp_path, capsys):
    disk = small_disk(24)
    audit = ("audit", "classifier", images, *TINY, "--processes", 1, "--out", tmp_path / "run", "--store", disk)
    assert "no space for decoded images" in refusal(capsys, *audit, code=3)
    assert not (tmp_path / "run").exists()
    assert not list((disk / "stores").glob("[0-9a-f]*/meta.json"))
    grow(disk)
    code, _, err = answer(capsys, *audit)
    assert (code, err) == (0, "")
    (store,) = (disk / "stores").glob("[0-9a-f]*/images.npy")
    pixels = np.load(store)
    manifest = load_manifest(images).table
    from PIL import Image

    for row in (0, 57, len(pixels) - 1):
        assert (pixels[row, :, :, 0] == np.asarray(Image.open(images / manifest["path"].iloc[row]))).all()


@pytest.mark.thorough
def test_a_full_disk_found_when_only_the_tables_are_missing(images, small_disk, tmp_path, capsys):
    """Every training is done and kept; only the result has no room."""
    disk = small_disk(2048)
    audit = ("audit", "classifier", images, *TINY, "--processes", 1, "--out", disk / "run")
    assert answer(capsys, *audit)[0] == 0
    expected = result_bytes(disk / "run")
    for name in RESULT:
        (disk / "run" / name).unlink()
    free = os.statvfs(disk)
    filler = disk / "filler"
    filler.write_bytes(b"\0" * (free.f_bavail * free.f_frsize - 40_000))
    failed = refusal(capsys, *audit, code=3)
    assert "No space left" in failed
    filler.unlink()
    assert answer(capsys, *audit)[0] == 0
    assert result_bytes(disk / "run") == expected
    assert sum(line["event"] == "trained" for line in log_of(disk / "run")) == 2


def test_a_disk_that_may_only_be_read(images, small_disk, capsys):
    disk = small_disk(512)
    (disk / "run").mkdir()
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    audit = ("audit", "classifier", images, *TINY, "--processes", 1, "--out")
    assert "may not be written to" in refusal(capsys, *audit, disk / "run")
    assert "may be written to" in refusal(capsys, *audit, disk / "new")


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a /proc, where not even root may make folders")
def test_a_folder_that_cannot_be_made(images, capsys):
    assert "cannot be written to" in refusal(
        capsys, "audit", "classifier", images, *TINY, "--processes", 1, "--out", "/proc/no/run"
    )


@pytest.mark.thorough
def test_the_second_process_on_a_run_folder_says_who_holds_it(images, tmp_path, capsys):
    flags = ("--models", 2, "--epochs", 100_000, "--processes", 1)
    audit = ("audit", "classifier", images, "--out", tmp_path / "run", *flags)
    first = start(memorisk(*audit), tmp_path / "cache")
    try:
        wait_for(first, tmp_path, "run/logits", at_most=600)
        assert (tmp_path / "run" / "logits").exists()  # the folder is the first's, and it trains
        before = [name for name in entries(tmp_path / "run") if "stage" not in name]  # which the first goes on writing
        assert f"is in use by process {first.pid}" in refusal(capsys, *audit)
        assert [name for name in entries(tmp_path / "run") if "stage" not in name] == before
    finally:
        first.kill()
        first.communicate()


def test_interrupted_by_the_keyboard_it_says_how_to_go_on(images, tmp_path):
    flags = ("--models", 2, "--epochs", 100_000, "--processes", 2, "--checkpoint-seconds", 0)
    run = start(memorisk("audit", "classifier", images, "--out", tmp_path / "run", *flags), tmp_path / "cache")
    wait_for(run, tmp_path, "run/checkpoints/*.safetensors", at_most=120)  # the workers train
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does, to the workers too
    out, err = run.communicate(timeout=60)
    assert run.returncode == 130
    assert out == ""
    assert err == "memorisk: stopped; what is done is kept, the same command resumes\n"
    deadline = time.monotonic() + 20
    while members(run.pid):
        assert time.monotonic() < deadline, "workers outlive the run"
        time.sleep(0.05)


# Other commands: who holds a folder, full disks, a store that may only be read


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> dict[str, str]:
    """Training, held-out and generated digits as files of arrays."""
    return write_sets(tmp_path_factory.mktemp("digits"))


GENERATOR = "tests.training.small_generators:of_classes"


def commands_with_a_folder(sets: dict[str, str]) -> dict[str, tuple[object, ...]]:
    """Every command that has a run folder, with what it needs before its folder."""
    train, made = sets["train"], sets["set"]
    study = Path(train).parent / "study.yaml"
    study.write_text("protocol: corrected\ndatasets: {d: {images: digits}}\narchitectures: {c: {model: small_cnn}}\n")
    benches = {f"bench {name}": ("bench", name, train) for name in ("detectors", "reid", "copies")}
    trainings = {f"train {name}": ("train", name, train) for name in ("classifier", "generator")}
    trainings["train detector"] = ("train", "detector", train, "--backbone", "resnet18@none")
    return {
        "audit classifier": ("audit", "classifier", "digits"),
        "audit synthetic": ("audit", "synthetic", train, made),
        "filter": ("filter", "--detector", "pixels", train, made),
        "quality": ("quality", train, made),
        "generate": ("generate", GENERATOR),
        "synthesize": ("synthesize", "--generator", GENERATOR, "--images", 4, "--detector", "pixels", train),
        "study rare-distinctive": ("study", "rare-distinctive", "--config", study),
        **benches,
        **trainings,
    }


@pytest.mark.parametrize("held", ["by another process", "by nobody, with a lock file of another machine"])
def test_every_command_says_who_holds_its_folder(digits, tmp_path, capsys, held):
    """One lock for all: as the first process holds it, and as a killed one on another machine leaves it."""
    wrong = {}
    for number, (name, command) in enumerate(commands_with_a_folder(digits).items()):
        run = tmp_path / str(number)
        run.mkdir(mode=0o700)
        (run / ".lock").write_text(json.dumps({"pid": 4321, "host": "node7", "since": "2026-01-01T00:00:00+00:00"}))
        if held.startswith("by nobody"):
            check_out_folder(run, {}, identity=[])
            continue
        out = () if name in ("filter", "generate", "synthesize") else ("--out",)
        with (run / ".lock").open() as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            code, shown, line = answer(capsys, *command, *out, run)
        said = f"{run} is in use by process 4321 on node7 since 2026-01-01"
        if (code, shown) != (2, "") or said not in line or entries(run) != [".lock"]:
            wrong[name] = (code, line)
    assert wrong == {}


def small_commands(sets: dict[str, str]) -> dict[str, tuple[object, ...]]:
    """Commands that take a second or two, their folder missing."""
    train, made, held = sets["train"], sets["set"], sets["held"]
    dit = ("--network", "tiny/4", "--steps", 3, "--batch-size", 4, "--snapshot-every", 3, "--checkpoint-seconds", 0)
    return {
        "audit synthetic": (
            "audit",
            "synthetic",
            train,
            made,
            "--held-out",
            held,
            "--detector",
            "pixels",
            "--plants",
            "2",
            "--out",
        ),
        "filter": ("filter", train, made, "--calibration", held, "--detector", "pixels"),
        "quality": ("quality", train, made, "--held-out", held, "--features", "pixels", "--out"),
        "train generator": ("train", "generator", train, *dit, "--out"),
    }


def everything(folder: Path) -> dict[str, bytes]:
    """The files of a run but those that hold times or the folder's own name."""
    left_out = ("log.jsonl", "config.yaml", ".lock")
    return {e: (folder / e).read_bytes() for e in entries(folder) if (folder / e).is_file() and e not in left_out}


SLOWER = [pytest.param(name, marks=pytest.mark.slow) for name in ("filter", "quality", "train generator")]


@pytest.mark.parametrize("name", ["audit synthetic", *SLOWER])
def test_a_full_disk_under_other_commands(digits, small_disk, tmp_path, capsys, name):
    command, disk = small_commands(digits)[name], small_disk(28)
    failed = refusal(capsys, *command, disk / "run", code=3)
    assert "no space left" in failed.lower()
    assert "what is done is kept" in failed
    assert [e for e in entries(disk) if e.endswith(".part")] == []
    assert not (disk / "run" / "verdict.json").exists()
    grow(disk)
    for folder in (disk / "run", tmp_path / "elsewhere"):
        code, _, err = answer(capsys, *command, folder)
        assert code in (0, 1), err
    assert everything(disk / "run") == everything(tmp_path / "elsewhere")


@pytest.mark.parametrize("name", ["audit synthetic", pytest.param("filter", marks=pytest.mark.slow)])
def test_a_store_that_may_only_be_read_is_used(digits, small_disk, tmp_path, capsys, name):
    """Images and features that were kept earlier are used; what is not there yet cannot be kept: one line."""
    command, disk = small_commands(digits)[name], small_disk(4096)
    assert answer(capsys, *command, tmp_path / "first", "--store", disk)[0] in (0, 1)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    before = entries(disk)
    code, _, err = answer(capsys, *command, tmp_path / "second", "--store", disk)
    assert code in (0, 1), err
    assert everything(tmp_path / "second") == everything(tmp_path / "first")
    assert entries(disk) == before
    line = refusal(capsys, *command, tmp_path / "third", "--store", disk, "--size", 6)
    assert "Read-only file system" in line
    assert "name another folder" in line
    assert not (tmp_path / "third").exists()
