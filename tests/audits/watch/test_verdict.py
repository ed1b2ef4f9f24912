"""What a report says where no rule could stop a training, and which two figures of FID it puts side by side."""

import re

import numpy as np
import pytest

from memorisk.audits.release.integrity import open_finished_audit
from memorisk.audits.release.statement import describe_run
from memorisk.audits.watch.memorization_watch import MemorizationWatch
from memorisk.audits.watch.reasons import BlindLooks
from memorisk.audits.watch.verdict import can_stop, watch_verdict
from memorisk.cli.show.generators import show_watch_within
from memorisk.cli.show.runs import show_outcome
from memorisk.report.columns import power
from memorisk.statistics.quality.frechet import frechet_distance

TRAIN, HELD, DRAWN = 200, 120, 60


def watch_of(digits, held=HELD, out=None, **settings):
    """A watch of digits."""
    settings = {"detector": "pixels", "quality": "none", "looks": 4, "images": DRAWN, **settings}
    return MemorizationWatch(digits[:TRAIN], digits[TRAIN : TRAIN + held], out=out, **settings)


def copies(digits, share):
    """Drawn images of which a share is of training images, each pixel changed by one grey level."""
    k = round(share * DRAWN)
    return np.concatenate([digits[:k] ^ 1, digits[TRAIN + HELD :][: DRAWN - k]])


@pytest.mark.parametrize(
    ("held", "settings", "share", "kind", "title"),
    [
        (HELD, {"stop_on": "never"}, 0.0, "note", "No rule could stop it: nothing was tested"),
        (HELD, {"stop_on": "never"}, 0.9, "warning", "No rule could stop it: nothing was tested, but step 1 points"),
        (15, {}, 0.9, "note", "No rule could stop it: nothing was tested"),
        (40, {"stop_on": "share", "stop": False}, 0.0, "note", "No rule could stop it: nothing was tested"),
        (HELD, {"patience": 2}, 0.9, "warning", "The rule did not say stop, but step 1 points to memorization"),
        (HELD, {}, 0.0, "note", "No memorization was shown"),
        (HELD, {}, 0.9, "fail", "Memorization was shown at step 1; earlier steps may have memorized, too"),
    ],
)
def test_the_headline_says_whether_a_rule_could_speak(digits, tmp_path, capsys, held, settings, share, kind, title):
    watch = watch_of(digits, held, tmp_path / "w", **settings)
    look = watch.look(1, copies(digits, share))
    result = watch.result()
    found = watch_verdict(result)
    assert (found.kind, found.headline[: len(title)]) == (kind, title)
    assert can_stop(result) is ("No rule" not in title)
    assert ("could have stopped the training: that it went on says nothing" in found.sentence) is ("No rule" in title)
    assert found.headline in report_of(watch)
    assert ("an audit of its own for the images of any earlier step" in found.next_steps[0]) is (kind == "fail")
    assert "No memorization was shown" not in report_of(watch) or title.startswith("No memorization")
    show_outcome(result, "watch", None, as_json=False)
    show_watch_within(watch)
    told = capsys.readouterr().out.replace("\n", " ")
    assert found.headline.upper() in told
    assert told.count(watch.rule) == 2
    assert f"watch: {found.headline}" in told
    assert ("it did not stop the training" in told) is (kind != "fail" and can_stop(result))
    assert ("it could not have stopped the training" in told) is (not can_stop(result))
    assert ("it stopped the training at step 1" in told) is (not look.go_on)


def report_of(watch):
    """The report's text."""
    path = watch.report()
    assert path is not None
    return path.read_text()


def fact(page, name):
    """The text of a fact's value and of what stands below it."""
    place = page.index(name)
    return re.sub(r"<[^>]*>", " ", page[place : place + 600])


def test_fid_is_compared_at_the_same_number_of_images(digits, tmp_path):
    flat = digits.reshape(len(digits), -1) / 255
    watch = watch_of(digits, 30, tmp_path / "few", quality="auto", stop_on="never")
    look = watch.look(1, copies(digits, 0.0))
    assert look.fid_same_number != look.fid
    page = report_of(watch)
    held = frechet_distance(flat[:TRAIN], flat[TRAIN : TRAIN + 30]).estimate
    assert look.fid_held_out == pytest.approx(held, rel=1e-6)
    said = fact(page, "FID of 30 images")
    assert f"{look.fid_same_number:.4g}" in said
    assert f"{held:.4g} of 30 held-out real images" in said
    for words in (
        "30 drawn images",
        "30 held-out real images",
        f"step 1: {look.fid_same_number:.4g}",
        "as many of both",
    ):
        assert words in page
    assert f"step 1: {look.fid:.4g}" not in page
    assert "Of as many as held out" in page
    many = watch_of(digits, HELD, tmp_path / "many", quality="auto", stop_on="never")
    look = many.look(1, copies(digits, 0.0))
    page = report_of(many)
    assert look.fid_same_number == look.fid
    assert f"{look.fid:.4g}" in fact(page, f"FID of {DRAWN} images")
    assert f"{DRAWN} drawn images, 95 %" in page
    assert f"{DRAWN} held-out real images" in page
    assert "as many of both" not in page


def test_the_terminal_shows_fid_of_as_many_images(digits, tmp_path, capsys):
    watch = watch_of(digits, 30, quality="auto", stop_on="never")
    look = watch.look(1, copies(digits, 0.0))
    show_outcome(watch.result(), "watch", None, as_json=False)
    told = capsys.readouterr().out
    row = [line for line in told.splitlines() if line.strip().startswith("1 ")][-1]  # of the table of quality
    assert row.split()[-2:] == [power(value) for value in (look.fid_same_number, look.fid_held_out)]
    assert "FID falls with the number of images: compare the last two of its columns" in told


def test_the_page_says_how_the_error_is_divided_and_no_setting_that_the_generator_lacks(digits, tmp_path):
    said = {1: "for a single look is all of it", 4: "4 equal ones", None: "the k (k + 1)-th"}
    for looks, words in said.items():
        watch = watch_of(digits, HELD, tmp_path / f"{looks}", looks=looks)
        watch.look(1, copies(digits, 0.0))
        page = report_of(watch)
        assert words in page
        assert "Sampling" not in page  # a sample of the user's own
    watch.kind = "gan"
    assert "Sampling" in report_of(watch)
    assert "sampling_steps" not in report_of(watch)
    watch.kind = "dit"
    assert "sampling_steps 50" in report_of(watch)


def test_looks_whose_error_is_too_small_are_not_told_as_if_they_had_looked(digits, tmp_path):
    """Without a number of looks their errors fall, and 120 held-out patients serve the first two looks alone."""
    watch = watch_of(digits, out=tmp_path / "w", looks=None, stop_on="share")
    for step in (1, 2):
        watch.look(step, copies(digits, 0.0))
    assert watch_verdict(watch.result()).headline == "No memorization was shown"
    for step in (3, 4):
        watch.look(step, copies(digits, 0.0))
    found = watch_verdict(watch.result())
    assert "2 of 4 looks (the first at step 3) could not have shown any" in found.headline
    (blind,) = (reason for reason in found.reasons if isinstance(reason, BlindLooks))
    assert "the error left to them is too small" in blind.text
    watch.report()
    with open_finished_audit(tmp_path / "w") as run:
        assert "2 of 4 looks (the first at step 3) could not have shown" in describe_run(run).why[0]


def test_looks_that_compared_nothing_are_not_told_as_if_they_had_looked(digits, tmp_path):
    watch = watch_of(digits, out=tmp_path / "w", measure="cosine")
    watch.look(1, np.zeros((DRAWN, 8, 8, 1), np.uint8))
    found, (look,) = watch_verdict(watch.result()), watch.looks
    assert not can_stop(watch.result())
    assert found.headline == "No rule could stop it: nothing was tested"
    assert found.reasons[0].text == "at step 1 every drawn image has one value only: nothing could be compared"
    assert "Nothing was compared" in look.words
    assert look.n_listed is None
    watch.report()
    with open_finished_audit(tmp_path / "w") as run:
        statement = describe_run(run)
    assert "1 of 1 look (the first at step 1) could not have shown" in statement.why[0]
    assert next(figure.value for figure in statement.figures if figure.name == "listed") is None
