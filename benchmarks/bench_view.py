"""How fast ``memorisk view`` is on a synthetic run of many pairs, and whether its memory grows.

    python benchmarks/bench_view.py [--pairs 200000] [--pages 400] [--judgements 250]

A small real audit of digits is run, and its tables are repeated with other ids until they hold so many made-up
synthetic images and as many pairs to look at; images are 500 PNG files that many ids share. Then a server of its own
is started, as a person starts it, and asked over HTTP, one request at a time:

- seconds from the printed link to the first page of pairs, and of every page after it;
- resident memory after the first pages, and after random pages with their thumbnails;
- seconds of the program per judgement: keeping the answer, and the page and pictures of the next pair.

Seconds are the server's processor time (in steps of 10 ms), since other work on the machine stretches what a clock
shows; that stands beside them.

Writes ``benchmarks/results/view.json`` where there are 200,000 pairs. Exits with 1 where the first page takes a second
or more, memory grows by more than 20 MiB over the last three quarters of the random pages, or one judgement in twenty
takes 0.1 seconds or more.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from sklearn.datasets import load_digits

from memorisk.audits.synthetic.run import audit_synthetic
from memorisk.report.result import from_storable, to_storable
from memorisk.runs.environment import machine, versions
from memorisk.runs.files import fingerprint, read_table, write_json, write_table

RESULT, FULL = Path(__file__).parent / "results" / "view.json", 200_000
SECONDS, GROWTH_MIB, JUDGEMENT = 1.0, 20.0, 0.1
FILES = 500


def small_run(folder: Path) -> Path:
    """A real audit of digits, every tenth synthetic image a copy."""
    pixels = np.rint(np.asarray(load_digits().data) * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8)
    for name, images in (("train", pixels[:FILES]), ("held", pixels[500:700]), ("made", pixels[700:1200])):
        (folder / name).mkdir()
        for row, image in enumerate(images):
            source = pixels[row] if name == "made" and row % 10 == 0 else image
            Image.fromarray(source).resize((64, 64)).save(folder / name / f"{row:04d}.png")
    given = {"detector": "pixels", "plants": 0, "one_image_per_patient": True}
    audit_synthetic(folder / "train", folder / "made", held_out=folder / "held", out=folder / "run", **given)
    return folder / "run"


def repeat_tables(run: Path, pairs: int) -> None:
    """Repeat the rows of a run's tables, each time with other ids and contents."""
    for name in ("per_image", "per_group", "tables/review", "tables/pairs", "tables/real_images", "manifests/synthetic",
                 "manifests/training"):  # fmt: skip
        path = run / f"{name}.parquet"
        table = from_storable(read_table(path))
        if not len(table):
            continue
        rows = np.arange(pairs) % len(table)
        made = table.take(rows).reset_index(drop=True)
        turn = np.arange(pairs) // len(table)
        for column in made.columns.intersection(
            ["image", "group", "nearest_image", "nearest_group", "second_image", "synthetic_image", "training_image",
             "real_image", "patient", "similar_image"]
        ):  # fmt: skip
            made[column] = [f"{value}-{t}" if value else value for value, t in zip(made[column], turn, strict=True)]
        if "pair" in made:
            made["pair"] = [fingerprint(value, int(t), length=16) for value, t in zip(made["pair"], turn, strict=True)]
        write_table(path, made if name.startswith("manifests") else to_storable(made, name.rpartition("/")[2]))
    (run / "result.sha256").unlink()  # the tables are no longer those of the audit, and a benchmark says so here
    (run / "review.csv").unlink()


class Visitor:
    """A browser that asks for pages and pictures."""

    def __init__(self, link: str) -> None:
        self.host, _, query = link.removeprefix("http://").partition("/")
        self.connection, self.cookie = HTTPConnection(self.host, timeout=120), ""
        _, headers = self._ask("GET", f"/{query}")
        self.cookie = headers["set-cookie"].partition(";")[0]

    def get(self, path: str) -> tuple[str, float]:
        """A page, and the seconds until it was whole."""
        began = time.perf_counter()
        body, _ = self._ask("GET", path)
        return body.decode("utf-8", errors="replace"), time.perf_counter() - began

    def post(self, path: str, said: dict[str, str]) -> dict[str, str]:
        """The answer to what a page sends."""
        return json.loads(self._ask("POST", path, json.dumps(said))[0])

    def pictures(self, page: str) -> None:
        """Every picture of a page."""
        for address in re.findall(r'<img src="(/[^"]+)"', page):
            self._ask("GET", address.replace("&amp;", "&"))

    def _ask(self, method: str, path: str, body: str | None = None):
        headers = {"Cookie": self.cookie, "Origin": f"http://{self.host}", "Content-Type": "application/json"}
        self.connection.request(method, path, body, headers)
        answer = self.connection.getresponse()
        found = answer.read()
        if answer.status >= 400:
            raise RuntimeError(f"{path}: {answer.status} {found[:200]!r}")
        return found, {name.lower(): value for name, value in answer.getheaders()}


def processor_seconds(process: int) -> float:
    """Processor time of a process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(process: int) -> float:
    """Resident memory of a process."""
    text = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) / 1024


def measure(run: Path, pages: int, judgements: int) -> dict[str, object]:
    """Start a server for a run, and ask it."""
    command = [sys.executable, "-P", "-m", "memorisk", "view", str(run)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        began = time.perf_counter()
        visitor = Visitor(server.stdout.readline().strip())
        up = time.perf_counter() - began
        key = re.search(r'href="/run/(\w+)"', visitor.get("/")[0])[1]
        used = processor_seconds(server.pid)
        page, first = visitor.get(f"/run/{key}/pairs")
        first_used = processor_seconds(server.pid) - used
        visitor.pictures(page)
        last = int(re.search(r"of ([\d,]+)</span>", page)[1].replace(",", ""))
        rng = np.random.default_rng(0)
        times, memory = [], []
        for number, at in enumerate(rng.integers(1, last + 1, pages).tolist()):
            page, seconds = visitor.get(f"/run/{key}/pairs?page={at}")
            times.append(seconds)
            if number % 4 == 0:
                visitor.pictures(page)
            memory.append(resident_mib(server.pid))
        answered, spent, place = [], [], f"/run/{key}/pair/0"
        page, _ = visitor.get(place)
        for number in range(judgements):
            pair = re.search(r'data-pair="(\w+)"', page)[1]
            said = {"pair": pair, "verdict": ("confirm", "dismiss")[number % 2], "by": "A", "reason": "another person"}
            began, used = time.perf_counter(), processor_seconds(server.pid)
            place = visitor.post(f"/run/{key}/judge", said)["next"]
            page, _ = visitor.get(place)
            visitor.pictures(page)
            answered.append(time.perf_counter() - began)
            spent.append(processor_seconds(server.pid) - used)
        kept = len(pd.read_csv(run / "reviewed.csv"))
    finally:
        server.terminate()
        server.wait(30)
    settled = memory[len(memory) // 4]
    return {
        "start_seconds": up,
        "first_page_seconds": {"processor": first_used, "clock": first},
        "page_seconds": {"median": float(np.median(times)), "largest": max(times), "pages": len(times)},
        "memory_mib": {"settled": settled, "last": memory[-1], "largest": max(memory), "growth": memory[-1] - settled},
        "judgement_seconds": {
            name: {
                "mean": float(np.mean(values)),
                "p95": float(np.quantile(values, 0.95)),
                "first": values[0],
                "largest_after": max(values[1:]),
            }
            for name, values in (("processor", spent), ("clock", answered))
        },
        "judgements": len(answered),
        "load": os.getloadavg()[0],
        "rows_kept": kept,
    }


def main() -> int:
    """Measure, tell and judge."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=FULL)
    parser.add_argument("--pages", type=int, default=400)
    parser.add_argument("--judgements", type=int, default=250)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memorisk-view-") as place:
        os.environ.setdefault("MEMORISK_CACHE", str(Path(place) / "cache"))
        run = small_run(Path(place))
        repeat_tables(run, given.pairs)
        found = {"pairs": given.pairs, **measure(run, given.pages, given.judgements)}
    found |= {"machine": machine(), "versions": versions()}
    print(json.dumps({name: found[name] for name in found if name not in ("machine", "versions")}, indent=2))
    if given.pairs == FULL:
        write_json(RESULT, found)
    failed = (
        found["first_page_seconds"]["processor"] >= SECONDS
        or found["memory_mib"]["growth"] > GROWTH_MIB
        or found["judgement_seconds"]["processor"]["p95"] >= JUDGEMENT
    )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
