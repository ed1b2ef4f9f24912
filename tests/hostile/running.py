"""Running memorisk on a hostile input: its memory, time, words and files, held to what is promised.

A process that has imported memorisk forks a child for each command, so that an input costs its own time and not that of
starting Python; ``fresh`` starts the real command line instead.
"""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.commands import entries, environment, memorisk
from tests.hostile.commands import OUT, HostileInput

MOST_BYTES = 2 << 30
"""Memory of a command with all its processes."""
MOST_SECONDS = 30.0
"""Processor time of a command: on a machine that does other work, too, its wall time says nothing."""
_PATIENCE = 10 * MOST_SECONDS
"""Wall time after which a command is taken to hang."""
_PROGRESS = re.compile(r"^\d\d:\d\d:\d\d [^\n]*\n", re.MULTILINE)
"""Lines of progress, which a slow machine is told where no terminal shows a bar."""
_LIBRARIES = (
    *(
        "memorisk.cli.main",
        "memorisk.cli.program",
        "memorisk.audits.classifier.run",
        "memorisk.audits.classifier.planning.dry_run",
        "memorisk.audits.classifier.losses",
    ),
    *("memorisk.audits.synthetic.run", "memorisk.studies.rare_distinctive.study", "memorisk.images.set_check.check"),
    *("memorisk.report.page", "scipy.optimize", "scipy.sparse", "scipy.stats"),
    *("nibabel", "pydicom", "pydicom.pixels", "tifffile", "h5py", "pyarrow.parquet", "PIL.Image", "scipy.io"),
)


@dataclass(frozen=True)
class Outcome:
    """What became of a command."""

    code: int
    """Exit code; negative for a signal that ended it."""
    answer: str
    """Standard output."""
    lines: str
    """Standard error, without lines of progress."""
    left: list[str]
    """Files in the folder of results."""
    peak: int
    """Bytes of memory, of the command and its processes together."""
    seconds: float
    """Processor time."""

    def breaches(self, hostile: HostileInput) -> list[str]:
        """What is not as promised; empty where all is."""
        refused, clean = self.code not in (0, 1), self.lines.startswith("memorisk: ") and self.lines.endswith("\n")
        found = {
            f"exit code {self.code}": self.code not in hostile.codes,
            f"{len(self.lines.splitlines())} lines": refused and not (clean and self.lines[:-1].isprintable()),
            "another reason": hostile.names not in (self.answer if self.code == 1 else self.lines),
            "words beside the answer": not refused and bool(self.lines),
            f"left {self.left[:3]}": refused and bool(self.left),
            f"{self.peak / 2**30:.1f} GiB": self.peak > MOST_BYTES,
            f"{self.seconds:.0f} seconds": self.seconds > MOST_SECONDS,
        }
        return [what for what, is_so in found.items() if is_so]


class Runner:
    """Runs commands, one at a time."""

    def __init__(self) -> None:
        """Start the process that forks."""
        command = [sys.executable, "-m", "tests.hostile.running"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, hostile: HostileInput, *, fresh: bool = False) -> Outcome:
        """Make an input and run its command.

        Args:
            hostile: The input.
            fresh: Start Python from nothing.
        """
        with _folder() as folder:
            (folder / "in").mkdir()
            out, words, said = folder / "out", folder / "words", folder / "said"
            arguments = [str(out) if a == OUT else a for a in hostile.make(folder / "in")]
            if fresh:
                told = _watched(lambda: _start(arguments, said, words, folder / "cache"), alone=False)
            else:
                assert self._process.stdin is not None
                assert self._process.stdout is not None
                request = {
                    "arguments": arguments,
                    "said": str(said),
                    "words": str(words),
                    "cache": str(folder / "cache"),
                }
                print(json.dumps(request), file=self._process.stdin, flush=True)
                told = json.loads(self._process.stdout.readline())
            left = entries(out) if out.is_dir() else []
            lines = _PROGRESS.sub("", words.read_text(encoding="utf-8", errors="replace"))
            answer = said.read_text(encoding="utf-8", errors="replace")
            return Outcome(told["code"], answer, lines, left, told["peak"], told["seconds"])

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="hostile-"))
    here = Path.cwd()
    try:
        yield folder
    finally:
        os.chdir(here)
        shutil.rmtree(folder, ignore_errors=True)


def _start(arguments: list[str], said: Path, words: Path, cache: Path) -> int:
    with said.open("wb") as output, words.open("wb") as error:
        return subprocess.Popen(
            memorisk(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=error,
            env=environment(cache),
            start_new_session=True,
        ).pid


def _fork(arguments: list[str], said: Path, words: Path, cache: Path) -> int:
    """A child of this process that is the command."""
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        os.setsid()
        for handle, name in ((0, os.devnull), (1, str(said)), (2, str(words))):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT, 0o600), handle)
        os.environ |= environment(cache)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        from memorisk.cli.main import main

        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
        sys.argv = ["memorisk", *arguments]
        code = main(arguments)
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _watched(start: Callable[[], int], *, alone: bool = True) -> dict[str, float]:
    """Peak memory of a command's processes, processor time and exit code.

    The kernel's own peak of a process counts what it was forked from, too: it is taken only where that is small.
    """
    child = start()
    done, sampled = threading.Event(), [0]

    def watch() -> None:
        """Add up the memory of the session's processes."""
        until = time.monotonic() + _PATIENCE
        while not done.wait(0.05):
            sampled[0] = max(sampled[0], _memory(child))
            if sampled[0] > 2 * MOST_BYTES or time.monotonic() > until:
                with suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)

    watching = threading.Thread(target=watch)
    watching.start()
    _, status, used = os.wait4(child, 0)
    done.set()
    watching.join()
    seconds = used.ru_utime + used.ru_stime
    return {
        "code": os.waitstatus_to_exitcode(status),
        "peak": max(sampled[0], used.ru_maxrss << 10 if alone else 0),
        "seconds": seconds,
    }


def _memory(leader: int) -> int:
    """Resident bytes of the processes of a session."""
    total = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == leader:
                    total += int(fields[21]) * resource.getpagesize()
    return total


def _serve() -> None:
    """Fork a command for each request on standard input."""
    from importlib import import_module

    for name in _LIBRARIES:
        with suppress(ImportError):
            import_module(name)
    for line in sys.stdin:
        asked = json.loads(line)
        told = _watched(lambda a=asked: _fork(a["arguments"], Path(a["said"]), Path(a["words"]), Path(a["cache"])))
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    _serve()
