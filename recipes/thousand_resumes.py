"""A week of work in minutes: run folders whose process is ended a thousand times must lose nothing.

Three kinds of run are each worked on by one process after another, every one ended by the kernel at a random moment of
its processor time, until they have been resumed as often as asked; then they are left to finish. One process imports
everything and forks the workers, so that a resume costs a fraction of a second; a few are commands that are started
from nothing and ended by ``kill -9``. A fifth run is interrupted inside one process, as by Ctrl-C in a notebook, at
random moments, and asked for again: there open files and memory would show.

After each end: what is finished never becomes less (trainings done, then the epoch or step of the checkpoint), every
line of ``log.jsonl`` is whole and in order, files of unfinished writes do not gather. In the end: every table of the
result has the bytes of a run that nobody disturbed.

    python recipes/thousand_resumes.py --out runs/thousand --markdown docs/results/thousand_resumes.md
"""

import argparse
import contextlib
import hashlib
import itertools
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

import memorisk

TIMES = ("log.jsonl", "config.yaml", ".lock")  # what holds times, or the folder's own name
LIVES = {"classifier": (0.75, 0.12), "generator": (2.0, 0.35), "study": (0.75, 0.12)}
"""The most that a life may cost, as a multiple of what a whole run costs beside its training, and what of it is
training on average: the last lives find it done and end amid the tables."""
IMPORTED = (
    *(
        "memorisk.audits.classifier.run",
        "memorisk.studies.rare_distinctive.study",
        "memorisk.training.generators.command",
        "memorisk.models.generators.dit.folder",
    ),
    *(
        "memorisk.training.generators.kinds.diffusion_training",
        "memorisk.audits.rendering",
        "matplotlib.pyplot",
        "scipy.stats",
        "sklearn.datasets",
    ),
    *("diffusers.models.transformers.dit_transformer_2d", "timm", "pyarrow.parquet"),
)
Work = Callable[[Path], Any]
_CLASSIFIER = {"models": 4, "processes": 1, "checkpoint_seconds": 0, "fail_on": "never", "sample": 150}


def classifier(epochs: int) -> Work:
    """An audit of four models on digits."""
    return lambda out: memorisk.audit_classifier("digits", out=out, epochs=epochs, **_CLASSIFIER)


def generator(steps: int) -> Work:
    """A small diffusion model on digits."""
    settings: dict[str, Any] = {"network": "tiny/4", "batch_size": 8, "checkpoint_seconds": 0, "sample": 150}
    return lambda out: memorisk.train_generator(
        "digits", out=out, steps=steps, snapshot_every=max(1, steps // 4), lr=1e-3, **settings
    )


def study(epochs: int) -> Work:
    """The study of paper 000 on digits: two networks."""
    settings = {**_CLASSIFIER, "epochs": epochs}
    del settings["models"]
    asked = {
        "protocol": "corrected",
        "seeds": [1, 2],
        "settings": settings,
        "architectures": {"CNN": {"model": "small_cnn"}, "ResNet": {"model": "small_resnet"}},
        "datasets": {"digits": {"images": "digits"}},
    }
    return lambda out: memorisk.study_rare_distinctive(asked, out=out)


@dataclass
class Tally:
    """What was seen of one run folder."""

    name: str
    resumes: int = 0
    killed: int = 0  # before it was done
    failed: int = 0  # ended with an error
    disguised: int = 0  # interruptions that a library turned into another error
    lost: int = 0  # less was there than before
    gained: int = 0
    broken_lines: int = 0
    out_of_order: int = 0
    left_over: list[int] = field(default_factory=list)  # files of unfinished writes
    files: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)  # bytes without the log
    open_files: list[int] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    seconds: float = 0.0
    log_lines: int = 0
    different: list[str] = field(default_factory=list)
    compared: int = 0


def progress_of(folder: Path) -> tuple[int, int]:
    """Trainings that are done, and the epochs or steps that the checkpoints hold."""
    done = len(list(folder.rglob("logits/*.npy"))) + len(list(folder.rglob("generator/generator.json")))
    epochs = 0
    for file in folder.rglob("*.safetensors"):
        try:
            with safe_open(file, framework="numpy") as opened:
                epochs += int((opened.metadata() or {}).get("epoch", 0))
        except (SafetensorError, OSError, ValueError):
            continue
    return done, epochs


def look(folder: Path, tally: Tally, before: tuple[int, int], *, counts: bool = True) -> tuple[int, int]:
    """Look at a folder after an end; what there is of the work."""
    now = progress_of(folder)
    if counts:
        tally.resumes += 1
        tally.lost += now < before
        tally.gained += now > before
    tally.broken_lines = tally.out_of_order = tally.log_lines = 0
    for log in folder.rglob("log.jsonl"):
        times = []
        for line in log.read_text(encoding="utf-8").splitlines():
            try:
                times.append(json.loads(line)["time"])
            except (ValueError, KeyError):
                tally.broken_lines += 1
        tally.log_lines += len(times)
        tally.out_of_order += sum(a > b for a, b in itertools.pairwise(times))
    everything = [p for p in folder.rglob("*") if p.is_file()]
    tally.left_over.append(sum(p.name.endswith(".part") or p.name.startswith(".tmp") for p in everything))
    tally.files.append(len(everything))
    tally.sizes.append(sum(p.stat().st_size for p in everything if p.name not in TIMES))
    return now


def forked(work: Work, out: Path, ends_after: float | None = None) -> multiprocessing.process.BaseProcess:
    """The work in a child that has imported everything already.

    Args:
        work: What it does.
        out: In which folder.
        ends_after: Seconds of its own processor time, however busy the machine is, after which the kernel ends it: a
            signal that nobody handles, so that nothing of it runs any more, as with ``kill -9``.
    """

    def child() -> None:
        """With what it says in a file beside the folder."""
        said = os.open(out.parent / "said.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(said, 1)
        os.dup2(said, 2)
        if ends_after is not None:
            signal.setitimer(signal.ITIMER_PROF, ends_after)
        work(out)

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    return process


def cost(work: Work, out: Path) -> float:
    """Processor seconds that work takes in a child of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = forked(work, out)
    process.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.exitcode != 0:
        raise SystemExit(f"the undisturbed run ended with {process.exitcode}: see {out.parent / 'said.txt'}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def killed(name: str, work: Work, out: Path, resumes: int, rng: np.random.Generator, most: float) -> Tally:
    """End the work so many times at random moments, then let it finish.

    Args:
        name: In the table.
        work: What is done.
        out: In which folder.
        resumes: How often it is ended.
        rng: Of the moments.
        most: Processor seconds that a life has at most.
    """
    tally, at, begun = Tally(name), (0, 0), time.monotonic()
    while tally.resumes < resumes:
        process = forked(work, out, max(1e-3, rng.uniform(0, most)))
        process.join()
        tally.killed += process.exitcode == -signal.SIGPROF
        tally.failed += process.exitcode not in (0, -signal.SIGPROF)
        at = look(out, tally, at)
        if tally.resumes % 50 == 0:
            print(f"{name}: {tally.resumes} ends, {at} done, {time.monotonic() - begun:.0f} s", flush=True)
    finish(work, out, tally, begun)
    return tally


def newest(folder: Path) -> int:
    """When a checkpoint or a result was last written."""
    times = [0]
    for file in (*folder.rglob("*.safetensors"), *folder.rglob("logits/*.npy")):
        with contextlib.suppress(FileNotFoundError):
            times.append(file.stat().st_mtime_ns)
    return max(times)


def commands(name: str, arguments: list[str], out: Path, resumes: int, rng: np.random.Generator) -> Tally:
    """The same with processes that begin from nothing, as a shell starts them."""
    tally, at, begun, typical = Tally(name), (0, 0), time.monotonic(), 20.0
    line = [sys.executable, "-m", "memorisk", *arguments, "--out", str(out)]
    while tally.resumes < resumes:
        process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seen, until = newest(out), time.monotonic() + 3 * typical
        while process.poll() is None and newest(out) == seen and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(rng.uniform(0, 0.1))
        process.kill()
        tally.killed += process.wait() == -signal.SIGKILL
        at = look(out, tally, at)
    tally.failed += subprocess.run(line, stdout=subprocess.DEVNULL, check=False).returncode not in (0, 1)
    look(out, tally, at, counts=False)
    tally.seconds = time.monotonic() - begun
    return tally


def interrupted(name: str, work: Work, out: Path, resumes: int, rng: np.random.Generator, most: float) -> Tally:
    """The same in this process, interrupted as by Ctrl-C; open files and memory are looked at.

    Args:
        name: In the table.
        work: What is done.
        out: In which folder.
        resumes: How often it is interrupted.
        rng: Of the moments.
        most: Processor seconds until an interruption, at most.
    """
    tally, at, begun, fired = Tally(name), (0, 0), time.monotonic(), False

    def interrupt(*_: Any) -> None:
        """What Ctrl-C does."""
        nonlocal fired
        fired = True
        raise KeyboardInterrupt

    signal.signal(signal.SIGPROF, interrupt)
    while tally.resumes < resumes:
        fired = False
        try:
            signal.setitimer(signal.ITIMER_PROF, max(1e-3, rng.uniform(0, most)))
            work(out)
            signal.setitimer(signal.ITIMER_PROF, 0)
        except BaseException as error:  # a compiled library may turn the interruption into an error of its own
            if not fired:
                raise
            tally.killed += 1
            tally.disguised += not isinstance(error, KeyboardInterrupt)
        at = look(out, tally, at)
        if tally.resumes % 50 == 0:
            print(f"{name}: {tally.resumes} ends, {at} done, {time.monotonic() - begun:.0f} s", flush=True)
        tally.open_files.append(len(list(Path("/proc/self/fd").iterdir())))
        tally.memory.append(int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize())
    work(out)
    look(out, tally, at, counts=False)
    tally.seconds = time.monotonic() - begun
    return tally


def finish(work: Work, out: Path, tally: Tally, begun: float) -> None:
    """Leave the work alone until it is done."""
    process = forked(work, out)
    process.join()
    tally.failed += process.exitcode != 0
    look(out, tally, (0, 0), counts=False)
    tally.seconds = time.monotonic() - begun


def content(folder: Path) -> dict[str, str]:
    """Hashes of what a finished run holds, but for what names times and folders."""
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and p.name not in TIMES and "checkpoints" not in p.parts
    }


def compare(tally: Tally, out: Path, undisturbed: Path) -> None:
    """Hold what came of it to a run that nobody disturbed."""
    found, expected = content(out), content(undisturbed)
    tally.compared = len(expected)
    tally.different = sorted(n for n in {*found, *expected} if found.get(n) != expected.get(n))
    print(tally.name, tally.resumes, f"{tally.seconds:.0f} s", tally.different, flush=True)


def page(tallies: list[Tally], seconds: float) -> str:
    """The results as Markdown."""
    total = sum(t.resumes for t in tallies)
    rows = [
        "| run | resumed | stopped before it was done | left more than before | left less | failed | files of the "
        "result, of other bytes |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {t.name} | {t.resumes:,} | {t.killed:,} | {t.gained:,} | {t.lost} | {t.failed} | "
            f"{t.compared}, {len(t.different)} |"
            for t in tallies
        ),
    ]
    left = [
        "| run | lines of log.jsonl, broken, out of order | files in the folder, first tenth to last tenth | bytes, "
        "likewise | unfinished files at once, at most | in the end |",
        "|---|---|---|---|---|---|",
        *(
            f"| {t.name} | {t.log_lines:,}, {t.broken_lines}, {t.out_of_order} | {_ends(t.files)} | {_ends(t.sizes)} | "
            f"{max(t.left_over)} | {t.left_over[-1]} |"
            for t in tallies
        ),
    ]
    within = [
        f"{t.name}: open files {_ends(t.open_files)}, memory {_ends(t.memory, 1 << 20)} MiB (medians of the first and "
        f"the last tenth of the interruptions). {t.disguised} interruptions came as another error, since they met a "
        "compiled library."
        for t in tallies
        if t.open_files
    ]
    versions = f"memorisk {memorisk.__version__}, {torch_version()}, {os.cpu_count()} cores."
    begin = (
        "# A thousand resumes\n\nRun folders whose process was ended at random moments, again and again, and started "
        "anew with the same command; one was interrupted as by Ctrl-C and asked for again in the same process. Written "
        "by `recipes/thousand_resumes.py`, which says what was done.\n"
    )
    end = f"{total:,} resumes in {seconds / 60:.0f} minutes. {versions}"
    return "\n\n".join([begin + "\n" + end, "\n".join(rows), "\n".join(left), *within]) + "\n"


def _ends(values: list[int], unit: int = 1) -> str:
    """Medians of the first and the last tenth."""
    n = max(1, len(values) // 10)
    return " to ".join(f"{np.median(part) / unit:,.0f}" for part in (values[:n], values[-n:]))


def torch_version() -> str:
    """Of the library that computes."""
    import torch

    return f"PyTorch {torch.__version__}"


def main() -> int:
    """All of it, and the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--resumes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--markdown", type=Path)
    given = parser.parse_args()
    given.out.mkdir(parents=True)
    rng, begun, n = np.random.default_rng(given.seed), time.monotonic(), given.resumes
    shares = {"classifier": n // 2, "generator": n // 5, "study": n // 20, "command": max(1, n // 100)}
    shares["in one process"] = n - sum(shares.values())
    for module in IMPORTED:  # in this process, which itself stays without threads: it forks
        import_module(module)
    tallies, asked, lives = [], {}, {}
    for name, kind in (("classifier", classifier), ("generator", generator), ("study", study)):
        begin = given.out / f"{name} "
        least, more = cost(kind(1), Path(f"{begin}least")), cost(kind(41), Path(f"{begin}more"))
        one = max(1e-4, (more - least) / 40)  # an epoch of all trainings, or a step
        lives[name], training = LIVES[name][0] * least, LIVES[name][1] * least
        asked[name] = epochs = max(2, int(shares[name] * training / one))
        cost(kind(epochs), Path(f"{begin}undisturbed"))
        print(f"{name}: {least:.2f} s and {one:.4f} s an epoch or step, {epochs} of them", flush=True)
        tallies.append(killed(name, kind(epochs), given.out / name, shares[name], rng, lives[name]))
        compare(tallies[-1], given.out / name, Path(f"{begin}undisturbed"))
    epochs = asked["classifier"]
    flags = [
        part for k, v in (_CLASSIFIER | {"epochs": epochs}).items() for part in (f"--{k.replace('_', '-')}", str(v))
    ]
    line = ["audit", "classifier", "digits", *flags]
    tallies.append(commands("command", line, given.out / "command", shares["command"], rng))
    within, most = "in one process", lives["classifier"]
    classifier(1)(given.out / "everything imported")  # an interrupted import is a library's own matter
    tallies.append(interrupted(within, classifier(epochs), given.out / within, shares[within], rng, most))
    for tally in tallies[-2:]:
        compare(tally, given.out / tally.name, given.out / "classifier undisturbed")
    text = page(tallies, time.monotonic() - begun)
    print(text)
    if given.markdown is not None:
        given.markdown.write_text(text, encoding="utf-8")
    sound = not any(t.lost or t.failed or t.different or t.broken_lines or t.left_over[-1] for t in tallies)
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
