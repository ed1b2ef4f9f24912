"""Doubts about who is who, in what every command says of patients: look-alike ids, and one study under two ids."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memorisk.audits.comparison.sets import ComparedParts
from memorisk.audits.filter.options import FilterOptions
from memorisk.audits.filter.result import FilterSummary
from memorisk.audits.filter.verdict import kept_verdict
from memorisk.images.identity import NO_DOUBT
from memorisk.images.manifest import STUDY, Manifest
from memorisk.images.sources.registry import load_manifest
from memorisk.report.numbers import from_json
from memorisk.report.result import Result
from tests.audits.synthesize.making import HERE
from tests.audits.synthetic.making import parts
from tests.commands import answer, own_cache

ALIKE, STUDIES = "1 set of patient ids looks alike", "1 study has images of several patient ids"
IN_SYNTHETIC = "1 study of real images is that of synthetic images"
GIVEN = ("--group-column", "patient")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Tables of a training set with the ids 007 and 7, of held-out images, and folders of drawn ones."""
    folder = tmp_path_factory.mktemp("doubts")
    train, held, made = parts(n_train=60, n_held=99, n_synthetic=40)
    with own_cache(folder):
        for name, images in (
            ("train", train),
            ("held", held),
            ("other", held),
            ("made", made),
            ("steps/step_10", made),
        ):
            (folder / name).mkdir(parents=True)
            rows = []
            for row, image in enumerate(images):
                file = f"{name}/{row:03}.png"
                Image.fromarray(image[..., 0]).save(folder / file)
                rows.append({"image": f"{name[0]}{row:03}", "path": file, "patient": f"{name}-p{row:03}", "label": "a",
                             STUDY: f"1.{name[0]}.{row}"})  # fmt: skip
            table = pd.DataFrame(rows)
            if name == "train":
                table.loc[[3, 4], "patient"] = ["007", "7"]
            if name == "other":
                table.loc[5, STUDY] = "1.t.9"
            table.to_csv(folder / f"{name.replace('/', '-')}.csv", index=False)
        yield folder


def _run(place: Path, capsys: pytest.CaptureFixture[str], *words: object) -> tuple[str, Path]:
    """Run a command with an output folder of its own; its output, and the folder."""
    out = place / "-".join(["out", *(Path(str(word)).stem for word in words if not str(word).startswith("-"))])[:150]
    code, shown, error = answer(capsys, *words, *GIVEN, "--out", out)
    assert code in (0, 1, 3), error
    return shown, out


def _quality(place: Path, held: str = "held") -> tuple[object, ...]:
    sets = (place / "train.csv", place / "made.csv", "--held-out", place / f"{held}.csv")
    return ("quality", *sets, "--features", "pixels", "--figures", "KID")


def _watch(place: Path, held: str = "held") -> tuple[object, ...]:
    sets = ("--train", place / "train.csv", "--held-out", place / f"{held}.csv")
    return ("watch", place / "steps", *sets, "--detector", "pixels", "--images", 40, "--quality", "none")


def _filter(place: Path, new: str = "held") -> tuple[object, ...]:
    sets = (place / "train.csv", place / "made.csv", "--calibration", place / f"{new}.csv", "--detector", "pixels")
    return ("filter", *sets, "--families", "noise:0.1", "--auditor", "pca:16")


def test_quality_carries_the_doubt(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown, out = _run(place, capsys, *_quality(place))
    assert ALIKE in shown
    numbers = json.loads((out / "quality.json").read_text())["numbers"]
    assert numbers["id_doubt"].startswith(ALIKE)
    assert "give one person one id" in numbers["id_doubt_way"]
    assert ALIKE in (out / "report.html").read_text()
    plan = answer(capsys, *_quality(place), *GIVEN, "--out", place / "none", "--dry-run")[1]
    assert ALIKE in plan


def test_a_watch_carries_the_doubt_and_so_does_its_statement(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown, out = _run(place, capsys, *_watch(place))
    assert ALIKE in shown
    assert ALIKE in (out / "report.html").read_text()
    answer(capsys, "statement", out, "--out", place / "statement-watch")
    assert ALIKE in (place / "statement-watch" / "privacy-statement.json").read_text()
    again = json.loads(_run(place, capsys, *_watch(place), "--json")[0])
    assert again["id_doubt"].startswith(ALIKE)


def test_a_filter_promises_nothing_to_ids_in_doubt(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out = _run(place, capsys, *_filter(place))
    verdict = json.loads((out / "verdict.json").read_text())
    assert verdict["status"] == "undecided"
    assert sum(why.startswith(ALIKE) for why in verdict["why"]) == 1
    assert verdict["id_doubt"].startswith(ALIKE)
    assert verdict["id_doubt_codes"] == verdict["audited"]["id_doubt_codes"] == ["look-alikes"]
    assert verdict["guarantee"] is None
    assert any(why.startswith(ALIKE) for why in json.loads((out / "audit" / "verdict.json").read_text())["why"])


def test_a_pass_of_the_audit_does_not_hide_a_doubt_that_it_cannot_have(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = Result.load(_run(place, capsys, *_filter(place))[1])
    numbers = from_json(FilterSummary, result.summary).numbers
    assert numbers.audited is not None
    passed = replace(numbers, audited=replace(numbers.audited, status="pass", reasons=(), what_would_decide=()))
    verdict = kept_verdict("filter", passed, FilterOptions())
    assert (verdict["status"], verdict["why"]) == ("undecided", [numbers.ids.id_doubt])
    assert kept_verdict("filter", replace(passed, ids=NO_DOUBT), FilterOptions())["status"] == "pass"
    others = ({"code": "other", "text": "in other words"},)
    undecided = replace(numbers.audited, status="undecided", reasons=others, what_would_decide=("so",))
    for codes, why in (
        (("look-alikes", "study-of-several"), ["in other words"]),
        (("study-of-several",), [numbers.ids.id_doubt, "in other words"]),
        ((), [numbers.ids.id_doubt, "in other words"]),
    ):
        audited = replace(undecided, id_doubt_codes=codes)
        assert kept_verdict("filter", replace(numbers, audited=audited), FilterOptions())["why"] == why


def test_a_loop_carries_the_doubt(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("synthesize", place / "train.csv", "--calibration", place / "held.csv", "--generator", f"{HERE}:copying",
             "--detector", "pixels", "--auditor", "pca:16", "--families", "noise:0.1", "--images", 20)  # fmt: skip
    _, out = _run(place, capsys, *words)
    verdict = json.loads((out / "verdict.json").read_text())
    assert verdict["status"] != "pass"
    assert verdict["id_doubt"].startswith(ALIKE)
    assert any(why.startswith(ALIKE) for why in verdict["why"])


def test_a_study_under_two_ids_in_two_sources_is_a_doubt(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out = _run(place, capsys, *_quality(place, "other"))
    assert STUDIES in json.loads((out / "quality.json").read_text())["numbers"]["id_doubt"]
    assert STUDIES in _run(place, capsys, *_watch(place, "other"))[0]
    words = ("audit", "synthetic", place / "train.csv", place / "made.csv", "--held-out", place / "other.csv")
    shown, out = _run(place, capsys, *words, "--detector", "pixels", "--plants", 2)
    assert STUDIES in shown
    _, out = _run(place, capsys, *_filter(place, "other"))
    left_out = json.loads((out / "verdict.json").read_text())["left_out"]
    assert left_out["in_training"] == 1  # whose study is in TRAIN is nobody new
    together = load_manifest(f"{place / 'train.csv'},{place / 'other.csv'}")
    assert [doubt.why for doubt in together.id_doubts if STUDIES in doubt.why]


@dataclass(frozen=True)
class Parts(ComparedParts):
    """Training and synthetic images."""

    train: Manifest
    synthetic: Manifest

    @property
    def manifests(self) -> tuple[Manifest, None, Manifest]:
        return self.train, None, self.synthetic


def test_a_synthetic_image_of_a_real_study_is_a_doubt(place: Path) -> None:
    train, made = (load_manifest(place / f"{name}.csv") for name in ("train", "made"))
    assert [doubt for doubt in Parts(train, made).id_doubts if IN_SYNTHETIC in doubt.why] == []
    table = made.table.assign(**{STUDY: np.where(np.arange(made.n) == 0, "1.t.0", "")})
    made.table.loc[:, STUDY] = table[STUDY]
    assert [doubt for doubt in Parts(train, made).id_doubts if IN_SYNTHETIC in doubt.why]
