"""What is fuzzed, and the rule: any input gives a value or a clean refusal, within time and memory."""

import resource
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memorisk.runs.errors import MemoriskError

SECONDS = 10.0
"""Processor time that one input may take."""
MEMORY = 2 << 30
"""Bytes that one input may add to the process at its peak."""

Repack = Callable[[bytes, Callable[[bytes, int], bytes], int], bytes]


@dataclass(frozen=True)
class Target:
    """Something that reads what others wrote.

    Attributes:
        name: As the table of results calls it.
        reads: What, in words.
        seeds: Makes small sound inputs in a folder of its own.
        ask: Is given the input's bytes and an empty folder; raises what a user would see.
        repack: Changes what is inside a packed or checksummed file, and packs it again.
    """

    name: str
    reads: str
    seeds: Callable[[Path], Sequence[bytes]]
    ask: Callable[[bytes, Path], Any]
    repack: Repack | None = None


@dataclass
class Findings:
    """Inputs of a target that broke the rule, one a kind."""

    folder: Path
    kinds: dict[str, str] = field(default_factory=dict)

    def note(self, kind: str, data: bytes, said: str) -> None:
        """Keep the first input of a kind, the shortest that is met."""
        self.folder.mkdir(parents=True, exist_ok=True)
        name = "".join(c if c.isalnum() or c in "._-" else "_" for c in kind)[:150]
        file = self.folder / name
        if not file.exists() or len(data) < file.stat().st_size:
            file.write_bytes(data)
            (self.folder / f"{name}.txt").write_text(said, encoding="utf-8", errors="backslashreplace")
        self.kinds[kind] = name


def judge(target: Target, data: bytes, folder: Path, findings: Findings) -> str:
    """Ask a target about one input: "value", "refused", or "broken", which is noted.

    Args:
        target: What is asked.
        data: The input.
        folder: An empty folder.
        findings: Where inputs that break the rule go.
    """
    before, peak = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        target.ask(data, folder)
        end = "value"
    except MemoriskError as refusal:
        end = "refused"
        if not str(refusal).isprintable() or not str(refusal):
            findings.note("a refusal that is not one printable line", data, repr(str(refusal)))
            end = "broken"
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [f for f in frames if "memorisk" in f.filename] or frames
        place = f"{Path(ours[-1].filename).name}-{ours[-1].name}-{ours[-1].lineno}"
        findings.note(f"{type(error).__name__}-{place}", data, "".join(traceback.format_exception(error)))
        end = "broken"
    if time.process_time() - before > SECONDS:
        findings.note("slow", data, f"{time.process_time() - before:.1f} s of processor time")
        end = "broken"
    added = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) * 1024
    if added > MEMORY:
        findings.note("memory", data, f"{added / 1e9:.2f} GB at its peak")
        end = "broken"
    return end
