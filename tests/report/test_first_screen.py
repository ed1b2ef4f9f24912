"""First screens: what is in sight and what is folded, figures that answer, tables as wide as their place."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from memorisk.audits.classifier.pages.audit import classifier_page
from memorisk.audits.classifier.pages.result_view import MOST_SHOWN, ResultView
from memorisk.report.blocks import Callout, Column, Details, Fact, Facts, Gallery, Panel, Table, Thumbnail, data_uri
from memorisk.report.figures.glance import MOST_DOTS, attack_plot, dots_plot, people_per_dot, strip_plot, strip_words
from memorisk.report.first_screen import MOST_FACTS, FirstScreen, verdict_screen
from memorisk.report.glance import counts_of, dots_figure, limits_of
from memorisk.report.page import FIGURE_WIDTH, fitting_columns, holds_images, render_page
from memorisk.report.result import Result
from memorisk.statistics.verdicts.reasons import Reason, verdict_reasons
from memorisk.statistics.verdicts.remedies import Claim, Remedy, SmallerClaim, Way, Ways
from tests.audits.classifier_results import HOSTILE, make_result
from tests.report.chromium import Chromium

MOST_WORDS = 110


@pytest.mark.parametrize(("n", "each"), [(1, 1), (MOST_DOTS, 1), (MOST_DOTS + 1, 2), (10 * MOST_DOTS, 10)])
def test_dots_are_all_people_and_the_marked_come_first(n: int, each: int) -> None:
    assert people_per_dot(n) == each
    marked = min(n, 3 * each)
    svg = dots_plot(marked, n)
    assert svg.count("<circle") == -(-n // each)
    assert svg.count("f-red") == -(-marked // each)
    assert "f-grid" not in svg.split("f-red")[0]
    figure = dots_figure(marked, n, "patients", "flagged")
    assert figure.title == f"{marked:,} of {n:,} patients flagged"
    assert (figure.caption == "") == (each == 1)


def test_one_marked_person_of_many_is_a_dot() -> None:
    assert dots_plot(1, 10 * MOST_DOTS).count("f-red") == 1
    assert dots_plot(0, 10 * MOST_DOTS).count("f-red") == 0


def test_a_strip_has_a_dot_for_each_model_and_words_for_each_side() -> None:
    svg = strip_plot([0.1, 0.2, 9.0], [1.0], top=2.0)
    assert (svg.count('class="seen"'), svg.count('class="unseen"')) == (3, 1)
    assert 'cx="180.0"' in svg  # beyond the top, at the end
    assert strip_words([], [1.0, 3.0]) == "mean loss none of 0 models that saw it, 2.00 of 2 others"


def test_attacks_lie_between_guessing_and_certainty() -> None:
    svg = attack_plot(["<b>"], [0.62], [0.58], [np.nan], 0.6)
    assert "gate 60 %" in svg
    assert "&lt;b&gt;" in svg
    below = attack_plot(["a"], [0.45], [0.4], [0.5], 0.6)
    assert below != attack_plot(["a"], [0.55], [0.5], [0.6], 0.6)


def test_estimates_and_counts_for_figures() -> None:
    table = pd.DataFrame({"x": [1.0], "x_low": [0.5], "x_high": [2.0]})
    assert [float(column[0]) for column in limits_of(table, "x")] == [1.0, 0.5, 2.0]
    values, low, high = counts_of([3, 4])
    assert values.tolist() == [3, 4]
    assert np.isnan([low, high]).all()


def test_columns_beyond_the_width_are_folded_and_none_is_lost() -> None:
    names = [f"column {k}" for k in range(12)]
    frame = pd.DataFrame({name: ["some words"] for name in names} | {"row": ["name"]})
    columns = [*(Column(source=name, heading=name.capitalize()) for name in names)]
    heading = Column(source="row", heading="Row", row_heading=True)
    table = Table(frame=frame, columns=[*columns, heading], caption="c")
    shown, folded = fitting_columns(table)
    assert shown[:-1] + folded == columns
    assert shown[-1] is heading
    assert folded
    assert len(fitting_columns(table, FIGURE_WIDTH)[0]) < len(shown)
    narrow = Table(frame=frame, columns=columns[:3], caption="c")
    assert fitting_columns(narrow) == (columns[:3], [])


def test_lists_sentences_and_further_numbers_are_folded() -> None:
    facts = [Fact(f"fact {k}", str(k)) for k in range(MOST_FACTS + 2)]
    screen = FirstScreen(
        kind="fail", headline="h", sentences=["answer", "more"], next_step="do it", lists={"Why": ["a", "b"], "No": []},
        warnings={"careful": "since"}, facts=facts,
    )  # fmt: skip
    blocks = screen.blocks([dots_figure(1, 2, "patients", "flagged")])
    box, warning, panel, tiles, *folded = blocks
    assert isinstance(box, Callout)
    assert len(box.blocks) == 2
    assert isinstance(warning, Callout)
    assert isinstance(panel, Panel)
    assert isinstance(tiles, Facts)
    assert list(tiles.items) == facts[:MOST_FACTS]
    assert [block.summary for block in folded if isinstance(block, Details)] == [
        "Why (2)", "What this says, and of what", "More numbers",
    ]  # fmt: skip
    assert len(folded) == 3


def test_a_picture_anywhere_is_one_and_a_strip_is_none() -> None:
    picture = Thumbnail(data_uri=data_uri(np.zeros((4, 4), dtype=np.uint8)), caption=["a"])
    strip = Thumbnail(data_uri="", caption=["a"], strip=strip_plot([1.0], [2.0], 2.0))
    assert holds_images([Details("d", [Panel([Gallery(items=[strip, picture], caption="")])])])
    assert not holds_images([Gallery(items=[strip], caption=""), Details("d", [])])


class _Open(Reason, code="test-first-screen"):
    """Doubt that several ways settle."""


@pytest.mark.parametrize(
    ("ways", "step"),
    [
        ((Ways((Remedy(way=Way.MODELS, needed=22.0, most=64.0),)),), "about 22 models (--models 22)"),
        (
            (Ways((Remedy(way=Way.MODELS, needed=np.inf),), (SmallerClaim(claim=Claim.NOTICE, value=4.0),)),),
            "what can be shown instead: that a single group with a gap of 4 nats or more would be noticed "
            "(--notice 4); smaller gaps are then left open, and no statement or gate takes such a pass",
        ),
        ((Ways((Remedy(way=Way.MODELS, needed=np.inf),)),), ""),
    ],
)
def test_the_next_step_is_the_cheapest_way_or_what_can_be_shown(ways: tuple[Ways, ...], step: str) -> None:
    verdict = {"status": "undecided", "audit": "classifier", **verdict_reasons([_Open(ways=ways)])}
    empty = pd.DataFrame()
    result = Result(per_image=empty, per_group=empty, per_class=empty, attacks=empty, summary={}, verdict=verdict)
    assert verdict_screen(result).next_step == step
    passed = result.replace(verdict=verdict | {"status": "pass"})
    assert verdict_screen(passed).next_step == ""


def test_where_no_patient_could_be_flagged_no_dots_say_0() -> None:
    result = make_result(status="undecided")
    nobody = result.per_group.assign(flagged=False)
    blind = result.per_class.assign(testable=False, room=0.0, flagged=0, verdict_flagged=0)
    page = render_page(classifier_page(result.replace(per_class=blind, per_group=nobody)))
    assert "patients flagged</strong>" not in page
    half = blind.assign(testable=[True] + [False] * (len(blind) - 1), room=[9.0] + [0.0] * (len(blind) - 1))
    page = render_page(classifier_page(result.replace(per_class=half, per_group=nobody)))
    assert f"Not tested: {len(blind) - 1} class" in page.split("<nav")[0]
    assert "patients flagged</strong>" in page


def test_a_class_with_flagged_patients_is_not_among_those_that_cannot_be_tested() -> None:
    result = make_result(("skin", "lung"))
    classes = result.per_class.assign(testable=True, room=0.1, flagged=[0, 79])
    page = render_page(classifier_page(result.replace(per_class=classes)))
    untested, tested = classes["label"]
    assert f"Cannot be tested</strong> for single patients: <bdi>{untested}</bdi> (" in page
    assert f"cannot be noticed</strong> in classes with flagged patients: <bdi>{tested}</bdi> (" in page


@pytest.mark.browser
@pytest.mark.parametrize("labels", [("skin", "lung"), HOSTILE])
def test_a_classifier_report_shows_pictures_and_few_words_first(
    browser: Chromium, tmp_path: Path, labels: tuple[str, ...]
) -> None:
    result = make_result(labels)
    images = ResultView.of(result, redact=False).first_images().values()
    pixels = {image: np.full((8, 8, 3), 90, dtype=np.uint8) for image in images}
    page = tmp_path / "page.html"
    page.write_text(render_page(classifier_page(result, pictures=pixels)), encoding="utf-8")
    for width, height in ((1280, 900), (390, 844)):
        browser.open(page, width=width, height=height)
        sight = browser.in_sight()
        assert labels is HOSTILE or sight["words"] <= MOST_WORDS, sight["text"]  # names may have many words
        assert sight["first"] < height
        assert not sight["wider"]
        assert sight["cut"] == 0


@pytest.mark.browser
@pytest.mark.parametrize("redact", [False, True])
def test_a_pass_shows_who_is_remembered_most_and_few_words(browser: Chromium, tmp_path: Path, redact: bool) -> None:
    result = make_result(("skin", "lung"), status="pass")
    result = result.replace(per_group=result.per_group.assign(flagged=False))
    first = ResultView.of(result, redact=False).first_images()
    largest = result.per_group.sort_values("M", ascending=False)["group"].head(MOST_SHOWN)
    assert [group for _, group in first] == largest.tolist()
    pixels = {image: np.full((8, 8, 3), 90, dtype=np.uint8) for image in first.values()}
    page = tmp_path / "page.html"
    page.write_text(render_page(classifier_page(result, pictures=pixels, redact=redact)), encoding="utf-8")
    browser.open(page)
    sight = browser.in_sight()
    assert sight["words"] <= MOST_WORDS, sight["text"]
    assert ("no patient is flagged" in sight["text"]) is not redact
