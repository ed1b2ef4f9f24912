"""What the fuzzer did, as a page: ``python -m tests.fuzz.table docs/results/fuzzing.md --before W --after W``.

``--before`` is what was fuzzed while things were found, ``--after`` since the last change of what a target reads; each
names folders of the fuzzer, with ``turns.jsonl``.
"""

import argparse
import json
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
    "images without a pixel (2 x 0) took all memory, a row an image. Tests: `tests/images/readers/test_tiff.py`, "
    "`tests/images/test_sources_arrays.py`.",
    "By Atheris: a Parquet table whose notes for pandas lack a key; a refusal that listed unprintable names; saved "
    "features that are an archive of other things; a GAN of 10^30 styles and an autoencoder of 10^30 layers, which "
    "would be built for ever; an autoencoder whose scaling is text. Test: `tests/test_damaged_files.py`. This line "
    "and the one above were met by the first run and mended after it.",
    "By the later runs: ids of saved features, latents and conditions that are no characters (`SystemError`); an "
    "encoder of latents of infinite size. Test: `tests/test_damaged_files.py`. A setting of a study left empty where a "
    "number belongs. Test: `tests/test_odd_settings.py`.",
    "By Hypothesis, in the tests' own strategies (`tests/test_odd_settings.py`, `tests/images/test_odd_folders.py`, "
    "`tests/images/sources/test_odd_items.py`, `tests/audits/release/test_odd_runs.py`): YAML with a date that does "
    "not exist, a number of thousands of digits or lists a thousand deep; a link to itself in a folder of "
    "images; images of Pillow without a pixel; studies with text where settings belong.",
    "By reading what these targets reach: a seal with a name that no disk holds; looks of a watch that are no JSON. "
    "Test: `tests/audits/release/test_odd_runs.py`.",
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


def page(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> str:
    """The page.

    Args:
        before: A row a turn of the runs that found something to mend.
        after: Of runs since the last change of what a target reads.
    """
    from tests.fuzz.targets import all_targets

    rows = []
    for target in all_targets():
        cells = [cell for found in (before, after) for cell in _cells(found, target.name)]
        edges = max((t["covered"] for t in (*before, *after) if t["target"] == target.name), default=0)
        rows.append(f"| {target.name} | {target.reads} | {' | '.join(cells)} | {edges or ''} |")
    (minutes, inputs), (last, met) = (
        (sum(t["seconds"] for t in found) / 60, sum(t["executions"] for t in found))
        for found in ([*before, *after], after)
    )
    wrong = sum(len(t["new"]) for t in after)
    again = {t["target"] for t in after}
    left = ", ".join(target.name for target in all_targets() if target.name not in again)
    said = [
        "# Fuzzing what memorisk reads",
        "",
        "Any input must give a value or a clean refusal: one printable line, within 10 seconds of processor time, with "
        "no more than 2 GB of memory added, and without ending the process. `python -m tests.fuzz` (the extra `fuzz`) "
        "changes small sound files by Atheris, which is libFuzzer on Python's own branches, and inside gzip, zip, JSON "
        "and PNG's checksums; `python -m tests.fuzz.plain` changes them at random, without Atheris. Written by "
        "`tests/fuzz/table.py`.",
        "",
        f"{inputs:,} inputs in {minutes:.0f} minutes over several runs, on two cores that did other work beside. What "
        f'was found was mended; "after" is since the last change that this led to in what a target reads: {met:,} '
        f"inputs in {last:.0f} minutes, of which {wrong} broke the rule."
        + (f" Not fuzzed again since then: {left}." if left else ""),
        "",
        "| target | reads | before: min | inputs | after: min | inputs | branches met |",
        "|---|---|---|---|---|---|---|",
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


def _cells(found: list[dict[str, Any]], name: str) -> tuple[str, str]:
    """Minutes and inputs of a target; empty where it had no turn."""
    own = [t for t in found if t["target"] == name]
    if not own:
        return "", ""
    return f"{sum(t['seconds'] for t in own) / 60:.1f}", f"{sum(t['executions'] for t in own):,}"


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.table", description=__doc__)
    parser.add_argument("page", type=Path)
    for name in ("before", "after"):
        parser.add_argument(f"--{name}", type=Path, nargs="*", default=[])
    given = parser.parse_args()
    given.page.write_text(page(turns(given.before), turns(given.after)), encoding="utf-8")


if __name__ == "__main__":
    main()
