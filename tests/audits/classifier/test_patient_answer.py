"""One patient's question, from the tables of a finished run: what was found, what would be, and the released file."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from memorisk import audit_classifier, audit_patient
from memorisk.audits.classifier.losses import audit_losses
from memorisk.audits.classifier.pages.patient import patient_page, patient_screen
from memorisk.audits.classifier.patient import nearest_ids
from memorisk.cli.main import main
from memorisk.report.page import render_page
from memorisk.report.result import Result
from memorisk.runs.errors import InputError
from memorisk.statistics.verdicts.noticeable_gap import stratum_of
from tests.audits.classifier.test_subgroup_table import remembered, write_losses
from tests.audits.made_evidence import twin_evidence


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Audit of losses in which one patient is strongly remembered."""
    folder = tmp_path_factory.mktemp("patients")
    evidence = remembered(twin_evidence(sizes={"a": 120}, n_test=80), np.array(["a-canary-7"]), 3.0)
    audit_losses(write_losses(folder / "losses.csv", evidence), out=folder / "run")
    return folder / "run"


def test_a_remembered_patient_is_said_to_be(run: Path) -> None:
    answer = audit_patient(run, "a-canary-7")
    assert answer.flagged
    assert answer.shows_signs
    assert answer.auc == 1.0
    assert answer.classes[0].place == 1
    screen = patient_screen(answer)
    assert screen.kind == "fail"
    assert "names this one" in "".join(str(part) for part in screen.sentences[0])


def test_an_unremembered_patient_is_told_what_would_have_been_noticed(run: Path) -> None:
    table = pd.read_parquet(run / "per_group.parquet").sort_values("p_value")
    answer = audit_patient(run, str(table["group"].iloc[-1]))
    assert not answer.shows_signs
    row = pd.read_parquet(run / "per_class.parquet").iloc[0]
    assert answer.noticeable in (row["noticeable_gap_one"], row["noticeable_gap_every"])
    assert answer.doubts, "a set of one class tells nothing of what its models learned"
    assert patient_screen(answer).kind == "undecided"
    answer = replace(answer, doubts=())
    screen = patient_screen(answer)
    assert screen.kind == "pass"
    assert "would have been noticed in four of five cases" in "".join(str(part) for part in screen.sentences[0])
    assert answer.classes[0].m.estimate == pytest.approx(table["M_mean"].iloc[-1])


def test_signs_below_the_list_are_no_all_clear(run: Path) -> None:
    """The list corrects for all patients; a patient about whom a person asks was not chosen among all."""
    table = pd.read_parquet(run / "per_group.parquet")
    between = table[(table["p_value"] <= 0.05) & ~table["flagged"]]
    assert len(between), "else the test looks at nobody"
    answer = audit_patient(run, str(between["group"].iloc[0]))
    assert not answer.flagged
    screen = patient_screen(answer)
    assert screen.headline == "There are signs that this patient is remembered"
    assert screen.kind == "undecided"
    assert "one in 20 people gets this answer" in "".join(str(part) for part in screen.sentences[0])


def test_every_doubt_of_the_run_about_the_patients_class_is_a_doubt_here(run: Path) -> None:
    """One that could not look at the class counts; one about another class does not."""
    reasons = Result.load(run).reasons
    expected = [r["text"] for r in reasons if r["bears_on"] == "doubt" and r.get("label", "") in ("", "a")]
    assert expected, "else the test looks at nothing"
    assert list(audit_patient(run, "a-canary-8").doubts) == expected


def test_a_patient_of_the_test_part_has_no_answer_and_says_so(run: Path) -> None:
    answer = audit_patient(run, "a-test-3")
    assert not answer.scored
    assert patient_screen(answer).headline == "This audit says nothing of this patient"


def test_nothing_found_is_no_all_clear_where_little_is_noticed(run: Path) -> None:
    table = pd.read_parquet(run / "per_group.parquet").sort_values("p_value")
    answer = replace(audit_patient(run, str(table["group"].iloc[-1])), doubts=())
    (of_class,) = answer.classes
    weak = replace(answer, classes=(replace(of_class, noticeable=answer.notice * 1.01),))
    assert patient_screen(weak).kind == "undecided"
    sure_mean = replace(of_class.m, estimate=2.7, low=0.7, high=4.8)
    assert patient_screen(replace(answer, classes=(replace(of_class, m=sure_mean),))).kind == "undecided"
    below = replace(of_class.m, estimate=-2.7, low=-4.8, high=-0.7)
    reversed_box = patient_screen(replace(answer, classes=(replace(of_class, m=below),))).sentences[0]
    assert "the direction that memory does not have" in "".join(map(str, reversed_box))
    assert "They do not differ" not in "".join(map(str, reversed_box))
    blind = replace(answer, classes=(replace(answer.classes[0], noticeable=float("inf")),))
    assert patient_screen(blind).kind == "undecided"
    untested = replace(answer, classes=(replace(answer.classes[0], p=float("nan"), why_not="too few"),))
    assert patient_screen(untested).headline == "Whether this patient is remembered could not be tested"


def test_the_command_prints_and_writes_the_page(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "answer.html"
    assert main(["audit", "patient", str(run), "a-canary-7", "--out", str(page)]) == 0
    assert "THIS PATIENT IS REMEMBERED" in capsys.readouterr().out
    assert "a-canary-7" in page.read_text()
    mine = tmp_path / "mine.html"
    mine.write_text("<title>my table</title>")
    for out, why in (
        (mine, "is another file"),
        (tmp_path / "answer.csv", "ends in .html"),
        (tmp_path / "no" / "answer.html", "name a file in a folder that exists"),
    ):
        assert main(["audit", "patient", str(run), "a-canary-7", "--out", str(out)]) == 2
        assert why in capsys.readouterr().err
    assert mine.read_text() == "<title>my table</title>"
    assert main(["audit", "patient", str(run), "a-canary-8", "--out", str(page)]) == 0, "its own page is replaced"
    capsys.readouterr()
    assert main(["audit", "patient", str(run), "nobody"]) == 2
    assert "has no patient 'nobody' among its 200" in capsys.readouterr().err
    assert main(["audit", "patient", str(tmp_path), "nobody"]) == 2


@pytest.mark.parametrize(
    ("patient", "suggested"),
    [("17", ["0017"]), ("0018", ["18"]), ("23", ["site-23"]), ("Anne", ["Anna"]), ("31", []), ("P-7", [])],
)
def test_an_id_is_suggested_by_its_number_and_not_by_its_spelling(patient: str, suggested: list[str]) -> None:
    """0317 is spelt more like 17 than 0017 is, and is another person."""
    groups = {"0017", "0317", "0171", "18", "site-23", "site-123", "Anna", "0013", "P-70"}
    assert nearest_ids(patient, groups) == suggested


def test_a_table_of_losses_has_no_target(run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"was not made by audit classifier, .*: leave --target out$"):
        audit_patient(run, "a-canary-7", target=tmp_path / "weights.safetensors")
    answer = audit_patient(run, "a-canary-7")
    assert "--target" not in render_page(patient_page(answer))
    assert "--target asks the released file itself" in render_page(patient_page(replace(answer, takes_target=True)))


def test_names_are_escaped(run: Path) -> None:
    answer = replace(audit_patient(run, "a-canary-7"), patient="<script>alert(1)</script>")
    assert "<script>alert" not in render_page(patient_page(answer))


def test_a_pseudonymised_run_is_asked_by_the_id_where_the_key_is(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(bytes(range(32)))
    key.chmod(0o600)
    file = write_losses(tmp_path / "losses.csv", twin_evidence(sizes={"a": 30}, n_test=20))
    audit_losses(file, out=tmp_path / "run", pseudonymise=True, pseudonym_key=key)
    answer = audit_patient(tmp_path / "run", "a-canary-7", pseudonym_key=key)
    assert answer.patient != "a-canary-7"
    assert answer.scored
    assert audit_patient(tmp_path / "run", answer.patient).patient == answer.patient
    with pytest.raises(InputError, match="under this key"):
        audit_patient(tmp_path / "run", "a-canary-700", pseudonym_key=key)


def test_the_released_file_is_compared_with_models_that_never_saw_the_patient(tmp_path: Path) -> None:
    """A model of the run itself: its loss on each image is the one that the run noted."""
    rng = np.random.default_rng(0)
    pixels, labels = rng.integers(0, 256, (60, 8, 8, 1), dtype=np.uint8), np.repeat(list("ab") * 15, 2)
    groups = np.array([f"p{i // 2}" for i in range(60)])
    np.savez(tmp_path / "set.npz", images=pixels, labels=labels, groups=groups)
    audit_classifier(
        tmp_path / "set.npz", out=tmp_path / "run", models=6, epochs=1, model="small_cnn", group_column="groups"
    )
    table = pd.read_parquet(tmp_path / "run" / "scores.parquet")
    scored = pd.read_parquet(tmp_path / "run" / "per_group.parquet")["group"].iloc[0]
    files = sorted((tmp_path / "run" / "weights").glob("*.safetensors"))
    answer = audit_patient(tmp_path / "run", scored, target=files[0])
    assert answer.target is not None
    own = table[table["group"].astype(str) == scored]
    by_model = own.groupby(["seed", "role"], observed=True)
    losses = by_model["loss"].mean()
    assert np.isclose(losses, answer.target.loss, rtol=1e-4).sum() >= 1
    unseen = losses[~by_model["member"].first()]
    assert answer.target.n_models == len(unseen) == 3
    assert answer.target.n_lower == (unseen <= answer.target.loss + 1e-9).sum()
    assert answer.target.unseen == pytest.approx(unseen.mean())
    assert answer.images["target_loss"].notna().all()


def test_strata_hold_every_number_of_images() -> None:
    assert [stratum_of(n) for n in (1, 2, 9, 10, 500)] == ["one", "few", "few", "many", "many"]
