"""``statement --page``: one printed side in plain words, an appendix on further sheets, printed by a browser."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html import unescape
from pathlib import Path

import pandas as pd
import pytest

from memorisk.audits.classifier.evidence import write_scores
from memorisk.audits.classifier.losses import audit_losses
from memorisk.audits.comparison.sets import further_parts_note
from memorisk.audits.release.statement import make_statement, write_statement
from memorisk.cli.main import main
from memorisk.report.kinds import KINDS as KINDS_OF_RUNS
from memorisk.report.page import render_page
from memorisk.report.statements.model_card import model_card
from memorisk.report.statements.officer.findings import affected_people
from memorisk.report.statements.officer.page import officer_page
from memorisk.report.statements.statement import HEADLINES, OTHER_PIXELS, StatedReason, Statement
from memorisk.runs.errors import InputError
from memorisk.runs.files import write_json
from memorisk.statistics.verdicts.scales import times_as_probable
from tests.audits.made_evidence import twin_evidence
from tests.audits.release.conftest import rewritten
from tests.commands import refusal
from tests.report.chromium import Chromium
from tests.report.conftest import browser
from tests.report.statements.test_statement import reason

pytestmark = pytest.mark.usefixtures("drawn")

__all__ = ["browser"]

HOSTILE = "<script>document.title='hacked'</script> [a](https://e.example)"
KINDS = ("clean", "copies", "filter", "quality", "watch", "losses", "feature")


def main_part(text: str) -> str:
    """The text of the page before its appendix."""
    return text.partition("Appendix: where each part belongs")[0]


def printed(browser: Chromium, page: Path) -> list[str]:
    """The text of each sheet."""
    browser.open(page)
    browser.pdf(page.with_suffix(".pdf"))
    found = subprocess.run(["pdftotext", "-layout", page.with_suffix(".pdf"), "-"], capture_output=True, check=True)
    return found.stdout.decode().split("\f")[:-1]


@pytest.mark.browser
@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="needs poppler-utils")
def test_the_main_part_is_one_printed_side_for_every_kind_of_run_and_for_all_together(
    runs: Path, browser: Chromium, tmp_path: Path
) -> None:
    for name, chosen in {**{kind: [kind] for kind in KINDS}, "all": ["clean", "filter", "losses", "feature"]}.items():
        page = tmp_path / f"{name}.html"
        page.write_text(render_page(officer_page(make_statement([f"runs/{run}" for run in chosen]))))
        sheets = printed(browser, page)
        first = [n for n, sheet in enumerate(sheets) if "Appendix: where each part belongs" in sheet]
        assert first == [1], f"{name}: the appendix begins on the second of {len(sheets)} sheets"
        assert "Who decides what" in sheets[0], name
        info = subprocess.run(["pdfinfo", page.with_suffix(".pdf")], capture_output=True, check=True).stdout.decode()
        assert "A4" in info
        assert int(re.search(r"Pages:\s+(\d+)", info)[1]) <= 3, name  # pyright: ignore[reportOptionalSubscript]


@pytest.mark.parametrize("kind", KINDS)
def test_there_is_no_symbol_no_test_and_no_unit_of_a_loss(runs: Path, kind: str) -> None:
    page = main_part(visible_text(make_statement(f"runs/{kind}")))
    assert not re.search(r"\b(p|M|AUC|nats?|epsilon|null|adjusted|FDR|level)\b|[=<>≤≥±σεδ%]|--", page)


def visible_text(statement: Statement) -> str:
    """What a reader sees of the page, without markup, style, script and the symbol of the box, which words repeat."""
    html = render_page(officer_page(statement)).partition("<main")[2].partition("<script>")[0]
    html = re.sub(r'<span class="symbol".*?</span>|<nav.*?</nav>', " ", html, flags=re.S)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html.partition(">")[2])))


def test_it_counts_people_copies_and_what_was_noticed_as_the_run_does(runs: Path) -> None:
    statement = make_statement("runs/copies")
    text = visible_text(statement)
    figures = {figure.name: figure for figure in statement.audits[0].figures}
    assert "Not ready for release" in text
    assert f"{figures['listed'].value:.0f} training patients are nearer to the set than chance explains" in text
    assert "no generated image points at one person" in visible_text(make_statement("runs/clean"))
    assert " no " not in text.partition("What was found")[2].partition("What to do next")[0]
    near = figures["nearly_identical"].value or 0
    assert f"{near:.0f} training patients have a nearly identical generated image" in text
    exact = figures["found/exact"]
    assert f"{(exact.value or 0) * (exact.n or 0):.0f} of {exact.n} unchanged" in text
    assert f"{statement.audits[0].n_units} patients in the training data and " in text
    assert "Do not release." in text
    named = pd.read_csv("runs/copies/review.csv", dtype=str)
    images, people = named["synthetic_image"].nunique(), named["patient"].nunique()
    assert f"In all, {images} generated images point at {people} training patients and must go, unless" in text
    assert "must go" not in visible_text(make_statement("runs/clean"))
    appendix = text.partition("Appendix: where each part belongs")[2]
    assert f"{figures['listed'].value:.0f} training patients are nearer to the set than chance explains" in appendix
    assert f"{(exact.value or 0) * (exact.n or 0):.0f} of {exact.n} unchanged" in appendix
    clean = visible_text(make_statement("runs/clean", images=["clean"]))
    assert "images are copies of images of people. Tried: copies that are unchanged or mirrored, and no others" in clean
    assert "It says nothing of copies that are turned, noisy, compressed, cropped or pasted in part" in clean
    assert "Other kinds, mostly missed: " in clean
    assert "This does not prove that no person can be recognised" in clean
    assert "No file was tied to this audit" not in clean
    assert "No file was tied to this audit" in visible_text(make_statement("runs/losses"))


@pytest.mark.parametrize("name", [name for name, kind in KINDS_OF_RUNS.items() if kind.statement])
@pytest.mark.parametrize("status", ["pass", "fail", "undecided"])
def test_each_kind_has_a_headline_and_what_a_person_faces(runs: Path, name: str, status: str) -> None:
    """The headlines of one kind differ by status, and those of runs of different claims are the statement's."""
    stated = make_statement("runs/clean")
    of_kind = replace(stated.audits[0], kind=name, status=status)
    verdict = replace(stated.verdict, status=status)
    text = visible_text(replace(stated, audits=(of_kind,), verdict=verdict))
    kind = KINDS_OF_RUNS[name]
    assert kind.claim
    assert {"pass": "No sign was found that", "fail": "Signs were found that", "undecided": "could not be decided"}[
        status
    ] in text.partition(kind.claim)[0]
    assert (f"What a person faces {kind.faces}" in text) == bool(kind.faces)
    assert "What a person faces What" not in text
    both = replace(stated, audits=(of_kind, replace(of_kind, kind="of another package")), verdict=verdict)
    assert HEADLINES[status] in visible_text(both)


def test_numbers_of_people_are_those_of_the_report(runs: Path, tmp_path: Path) -> None:
    """Distinct people, not pairs: the page, its figure, and the report's own first screen and tables agree."""
    planted = twin_evidence(sizes={"a": 40, "b": 40}, n_test=40, n_seeds=8, planted={"a": 1.0}, seed=2)
    write_scores(tmp_path / "scores.parquet", planted)
    audit_losses(tmp_path / "scores.parquet", out=tmp_path / "losses")
    for run, table, column in (
        (tmp_path / "losses", "per_group", "flagged"),
        (Path("runs/copies"), "tables/review", "patient"),
    ):
        statement = make_statement(run)
        text = main_part(visible_text(statement))
        rows = pd.read_parquet(run / f"{table}.parquet")
        people = set(rows["group"][rows[column]] if column == "flagged" else rows[column])
        affected = affected_people(statement.audits[0])
        assert affected is not None
        assert affected.n == len(people) > 0
        units = statement.audits[0].units
        assert f"{len(people)} of {affected.n_all} {units} {affected.words}" in text
        assert f"; {len(people)} different {affected.units} {affected.words}" in text
    report = (tmp_path / "losses" / "report.html").read_text("utf-8")
    statement = make_statement(tmp_path / "losses")
    affected = affected_people(statement.audits[0])
    assert affected is not None
    assert f"{affected.n} of {affected.n_all} {statement.audits[0].units} flagged" in report
    rows = pd.read_parquet(tmp_path / "losses" / "per_group.parquet")
    median = rows[rows["flagged"]].groupby("group")["M"].max().median()
    assert times_as_probable(median) in main_part(visible_text(statement))


def test_no_dots_of_0_people_where_none_could_have_been_found(runs: Path) -> None:
    """An audit that could not look counts no people, which says nothing; a pass that counts none draws them."""
    stated = make_statement("runs/clean")
    nobody = {"to_leave_out": 0, "to_leave_out_people": 0}
    for status, drawn in (("pass", True), ("undecided", False)):
        page = render_page(officer_page(with_figures(stated, status, **nobody)))
        assert ("<circle" in page) == drawn
        assert (f"0 of {stated.audits[0].n_units} patients are pointed at" in page) == drawn
    losses = make_statement("runs/losses")
    untested = with_figures(losses, "undecided", classes_tested=0, flagged=0)
    assert "<circle" not in render_page(officer_page(untested))
    assert "stand out</strong>" not in render_page(officer_page(untested))
    tested = with_figures(losses, "undecided", classes_tested=1, flagged=0)
    assert f"0 of {losses.audits[0].n_units} patients stand out" in render_page(officer_page(tested))


def test_parts_without_content_are_left_out(runs: Path) -> None:
    quality = visible_text(make_statement("runs/quality"))
    assert "What a person faces" not in quality
    assert "The audit counted no people" not in visible_text(make_statement("runs/feature"))
    assert "How many people" not in visible_text(make_statement("runs/feature"))


def with_figures(told: Statement, status: str, *reasons: StatedReason, **values: int) -> Statement:
    """A statement of one set with another verdict, and these counts instead of its own."""
    (audit,) = told.audits
    figures = tuple(replace(one, value=values.get(one.name, one.value)) for one in audit.figures)
    changed = replace(audit, status=status, reasons=reasons, figures=figures)
    return replace(told, audits=(changed,), verdict=replace(told.verdict, status=status, why=changed.why))


def test_no_tier_of_a_failure_is_left_out_and_no_zero_stands_beside_it(runs: Path) -> None:
    found = {"nearly_identical": 33, "nearly_identical_held_out": 4, "second_look": 11, "second_look_people": 11}
    text = main_part(
        visible_text(with_figures(make_statement("runs/clean"), "fail", reason("so", bears_on="fail"), **found))
    )
    assert "33 training patients and 4 held-out patients have a nearly identical generated image" in text
    assert "11 generated images lie on an image of 11 training patients (second look)" in text
    assert "no training patient" not in text
    assert "no generated image" not in text


def test_a_doubt_says_its_reasons_in_plain_words_each_once(runs: Path) -> None:
    reasons = (
        reason("the very pixels of a held-out image", "held-out-pixels"),
        StatedReason(code="parts-not-alike", bears_on="doubt", text="p 0.1 %", plain="the images are not alike"),
        reason("the images are not alike", "synthetic-unread"),
        reason("some files were not read", "files-unread"),
        reason("no copy beside a pass", "kinds-covered", "support"),
    )
    told = with_figures(make_statement("runs/clean"), "undecided", *reasons, same_pixels_held_out=4)
    text = main_part(visible_text(told))
    assert text.count("4 generated images are, point for point, an image of a person who should not") == 1
    assert "Why: the images are not alike; some files were not read." in text
    assert "the very pixels" not in text
    assert "beside a pass" not in text
    assert "no generated image" not in text


def test_the_gravest_doubts_are_in_words_and_the_others_are_counted(runs: Path) -> None:
    reasons = [reason(f"doubt {n}", "files-unread") for n in range(5)]
    text = main_part(visible_text(with_figures(make_statement("runs/clean"), "undecided", *reasons)))
    assert "Why: doubt 0; doubt 1; doubt 2; 2 more reasons in the audit's report." in text
    assert "doubt 3" not in text
    assert "the audit's report lists under “What would decide it”" in text  # the page may come without a model card


def test_images_of_further_parts_are_stated_once_and_their_pixels_counted(runs: Path, tmp_path: Path) -> None:
    note = further_parts_note({"val": 10}, pixels_compared=True)

    def with_further_parts(run: Path) -> None:
        summary = json.loads((run / "summary.json").read_text())
        notes = [*summary["numbers"]["notes"], note]
        summary["numbers"] |= {"other_parts": {"val": 10}, "notes": notes}
        write_json(run / "summary.json", summary)

    statement = make_statement(rewritten(runs / "runs/clean", tmp_path / "run", change=with_further_parts))
    assert main_part(visible_text(statement)).count("10 images in further parts (val: 10)") == 1
    assert model_card(statement).count("10 images in further parts (val: 10)") == 1
    assert note in statement.audits[0].limits  # which a gate notes
    failure = reason("pixels of a further part", "other-part-pixels", bears_on="fail")
    text = main_part(visible_text(with_figures(statement, "fail", failure, **{OTHER_PIXELS: 4})))
    assert text.count("4 generated images are images of a person in a further part of the data, point for point") == 1
    assert "no generated image is a training image" not in text


def test_nothing_of_unknown_origin_is_markup(runs: Path) -> None:
    told = make_statement("runs/clean")
    hostile = replace(told, memorisk=HOSTILE, audits=(replace(told.audits[0], not_examined=(HOSTILE,)),))
    page = render_page(officer_page(hostile))
    assert "<script>document" not in page
    assert "https://e.example)" in page
    assert 'href="https' not in page


def test_the_page_is_written_again_and_takes_the_place_of_nothing_else(runs: Path, tmp_path: Path, capsys) -> None:
    page = tmp_path / "out" / "page.html"
    command = ["statement", "runs/clean", "--out", str(tmp_path / "out"), "--page", str(page)]
    assert main(command) == 0
    first = page.read_bytes()
    assert f"Page: {page}" in capsys.readouterr().out
    assert main(command) == 0
    assert page.read_bytes() == first
    mine = tmp_path / "mine.html"
    mine.write_text("<title>my thesis</title>")
    for name, why in (
        (mine, "is another file"),
        (tmp_path / "a.txt", "ends in .html"),
        (tmp_path / "no/a.html", "exists"),
    ):
        with pytest.raises(InputError, match=why):
            write_statement("runs/clean", out=tmp_path / "other", page=name)
    with pytest.raises(InputError, match="runs/clean"):
        write_statement("runs/clean", out=tmp_path / "other", page="runs/clean/page.html")
    assert mine.read_text() == "<title>my thesis</title>"
    assert not (tmp_path / "other").exists()


def test_the_page_alone_takes_no_folder_and_a_statement_takes_one(runs: Path, tmp_path: Path, capsys) -> None:
    both = tmp_path / "both"
    assert main(["statement", "runs/clean", "--out", str(both), "--page", str(both / "page.html")]) == 0
    capsys.readouterr()
    alone = tmp_path / "page.html"
    assert main(["statement", "runs/clean", "--page", str(alone)]) == 0
    told = capsys.readouterr().out
    assert f"Page: {alone}" in told
    assert "Statement:" not in told
    assert alone.read_bytes() == (both / "page.html").read_bytes()
    assert {*tmp_path.iterdir()} == {both, alone}
    (tmp_path / "key.pem").write_text("")
    for given in ([], ["--page", tmp_path / "other.html", "--sign", tmp_path / "key.pem"]):
        assert "add --out FOLDER" in refusal(capsys, "statement", "runs/clean", *given)
    assert {*tmp_path.iterdir()} == {both, alone, tmp_path / "key.pem"}


def test_a_group_that_is_remembered_more_is_named_in_plain_words(runs: Path) -> None:
    plain = "patients with sex F are remembered more than others with the same diagnosis or class"
    of_women = StatedReason(code="subgroup-more-exposed", bears_on="limit", text="p 0.001", plain=plain)
    for status in ("pass", "fail", "undecided"):
        statement = with_figures(make_statement("runs/losses"), status, of_women)
        assert plain in main_part(visible_text(statement)), status
