"""Hundreds of hostile inputs through the command line: none may take the machine's memory or time or leave a file.

Bombs, headers that lie, files cut at every field, pixels that are no numbers, links to devices, aliases of aliases,
tables of 200,000 columns. Each is met by a command in a process of its own (`images check`, `audit classifier`,
`audit synthetic`, `audit losses`, `report`, `study`). Held is an input where the command takes under 2 GiB of memory
with all its processes and under 30 seconds of processor time, ends with one line and exit code 2 (or counts the file
as a problem, or does its work where the input does no harm), and leaves nothing in the folder of results.

    python recipes/hostile_inputs.py --markdown docs/results/hostile_inputs.md
"""

import argparse
import json
import multiprocessing
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.hostile.commands import HostileInput
from tests.hostile.inputs import hostile_inputs
from tests.hostile.running import Runner

BEGIN, END = "<!-- hostile inputs -->", "<!-- end of hostile inputs -->"


def main() -> int:
    """Run them and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", default="", help="only kinds that hold this text")
    parser.add_argument("--every", type=int, default=1, help="only every n-th input")
    parser.add_argument("--fresh", action="store_true", help="start Python anew for each input, not only one in 40")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--lines", type=Path, help="write what became of each input, a line of JSON each")
    parser.add_argument("--markdown", type=Path, help=f"write the table into this page, between {BEGIN} and {END}")
    asked = parser.parse_args()
    if asked.markdown and not (asked.markdown.is_file() and BEGIN in asked.markdown.read_text(encoding="utf-8")):
        parser.error(f"{asked.markdown} is no page with {BEGIN}")
    chosen = [i for i, hostile in enumerate(hostile_inputs()) if asked.kinds in hostile.kind][:: asked.every]
    jobs = [(i, asked.fresh or i % 40 == 0) for i in chosen]
    rows = []
    with multiprocessing.get_context("spawn").Pool(asked.processes) as pool:
        for row in pool.imap_unordered(run_one, jobs):
            rows.append(row)
            if asked.lines:
                with asked.lines.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
            if row["breaches"]:
                print(f"{row['kind']}: {row['name']}: {', '.join(row['breaches'])}: {row['lines'][:200]!r}", flush=True)
    table = as_table(rows)
    print(table)
    if asked.markdown:
        page = asked.markdown.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGIN)
        asked.markdown.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    return int(any(row["breaches"] for row in rows))


_state: dict[str, Any] = {}


def run_one(job: tuple[int, bool]) -> dict[str, Any]:
    """What became of one input; the process keeps its inputs and its runner."""
    if not _state:
        _state.update(inputs=hostile_inputs(), runner=Runner())
    number, fresh = job
    hostile: HostileInput = _state["inputs"][number]
    outcome = _state["runner"].run(hostile, fresh=fresh)
    return {
        "number": number, "kind": hostile.kind, "name": hostile.name, "code": outcome.code, "lines": outcome.lines,
        "peak": outcome.peak, "seconds": outcome.seconds, "breaches": outcome.breaches(hostile),
    }  # fmt: skip


def as_table(rows: list[dict[str, Any]]) -> str:
    """Counts, most memory and longest time of each kind."""
    kinds: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in sorted(rows, key=lambda r: r["number"]):
        kinds[row["kind"]].append(row)
    lines = [
        "| kind | inputs | held | refused | counted or harmless | most memory, MiB | longest, s |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind, of_kind in [*kinds.items(), ("all", rows)]:
        held = sum(not row["breaches"] for row in of_kind)
        refused = sum(row["code"] == 2 for row in of_kind)
        peak, seconds = max(row["peak"] for row in of_kind) >> 20, max(row["seconds"] for row in of_kind)
        lines.append(
            f"| {kind} | {len(of_kind)} | {held} | {refused} | {len(of_kind) - refused} | {peak:,} | {seconds:.0f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
