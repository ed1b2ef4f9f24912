"""What the fuzzer did, as a page: ``python -m tests.fuzz.table docs/results/fuzzing.md WORK [WORK ...]``."""

import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import memorisk

MENDED = (
    "`memorisk report` and `memorisk compare` of a run whose `summary.json` or `verdict.json` was valid JSON but held "
    "other things than were written ended as a defect of memorisk (`unexpected TypeError`, exit code 3): one line and "
    "exit code 2 now, for whatever such files lead to. Test: `tests/audits/test_rendering.py`.",
    "A table of a run that was no Parquet any more gave Arrow's own error. Test: `tests/test_damaged_files.py`.",
    "A Parquet manifest whose text was no UTF-8 was read, and broke where the text was looked at: pandas decodes it "
    "only then. All tables are checked when they are read. Test: `tests/test_damaged_files.py`.",
    "Arrays whose header is no header (`tokenize.TokenError`, from saved outputs, features, fitted projections), old "
    "checkpoints that break off (`struct.error`, `AssertionError`), zip archives with names that are no text or that "
    "are encrypted, as weights; a generator's description whose details are text. Test: `tests/test_damaged_files.py`.",
    "By Atheris: a TIFF of 300 bytes that promises 9,217 channels took 2.3 GB; an idx or npy header of a billion "
    "images without a pixel (2 x 0) took all memory, a row an image. Tests: `tests/images/test_readers_tiff.py`, "
    "`tests/images/test_sources_arrays.py`.",
    "By Atheris: a Parquet table whose notes for pandas lack a key; a refusal that listed unprintable names; saved "
    "features that are an archive of other things; a GAN of 10^30 styles and an autoencoder of 10^30 layers, which "
    "would be built for ever; an autoencoder whose scaling is text. Test: `tests/test_damaged_files.py`. These and the "
    "line above were met by the run of this page and mended after it: tests hold their inputs, and the targets were "
    "not all fuzzed again.",
)
LIBRARIES = (
    "atheris",
    "numpy",
    "pandas",
    "pyarrow",
    "pillow",
    "tifffile",
    "pydicom",
    "nibabel",
    "h5py",
    "torch",
    "onnx",
)


def turns(works: list[Path]) -> list[dict[str, Any]]:
    """All turns of these runs of the fuzzer."""
    files = [work / "turns.jsonl" for work in works]
    return [json.loads(line) for file in files if file.is_file() for line in file.read_text().splitlines()]


def page(found: list[dict[str, Any]]) -> str:
    """The page.

    Args:
        found: A row a turn.
    """
    from tests.fuzz.targets import all_targets

    rows = []
    for target in all_targets():
        own = [t for t in found if t["target"] == target.name]
        minutes, inputs = sum(t["seconds"] for t in own) / 60, sum(t["executions"] for t in own)
        edges = max((t["covered"] for t in own), default=0)
        rows.append(f"| {target.name} | {target.reads} | {minutes:.1f} | {inputs:,} | {edges or ''} |")
    minutes = sum(t["seconds"] for t in found) / 60
    inputs = sum(t["executions"] for t in found)
    said = [
        "# Fuzzing what memorisk reads",
        "",
        "Any input must give a value or a clean refusal: one printable line, within 10 seconds of processor time, with "
        "no more than 2 GB of memory added, and without ending the process. `python -m tests.fuzz` (the extra `fuzz`) "
        "changes small sound files by Atheris, which is libFuzzer on Python's own branches, and inside gzip, zip, JSON "
        "and PNG's checksums; `python -m tests.fuzz.plain` changes them at random, without Atheris. Written by "
        "`tests/fuzz/table.py`.",
        "",
        f"{inputs:,} inputs in {minutes:.0f} minutes, on two cores that did other work beside.",
        "",
        "| target | reads | minutes | inputs | branches met |",
        "|---|---|---|---|---|",
        *rows,
        "",
        "Branches are of memorisk and of readers written in Python, counted by Atheris; none of compiled decoders.",
        "",
        "## Found and mended",
        "",
        *(f"* {one}" for one in MENDED),
        "",
        f"memorisk {memorisk.__version__}, {', '.join(f'{n} {metadata.version(n)}' for n in LIBRARIES)}.",
        "",
    ]
    return "\n".join(said)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(turns([Path(w) for w in sys.argv[2:]])), encoding="utf-8")
