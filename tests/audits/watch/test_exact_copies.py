"""Drawn images with the pixels of training images are memorization; held-out images and blank ones are no null."""

import numpy as np
import pytest

from memorisk.audits.release.statement import make_statement
from memorisk.audits.watch.memorization_watch import MemorizationWatch
from memorisk.audits.watch.verdict import can_stop, watch_verdict
from memorisk.report.cells import inline_text
from memorisk.report.statements.officer.findings import findings
from memorisk.report.statements.statement import FAIL, UNDECIDED

TRAIN, HELD, DRAWN, COPIED = 60, 40, 30, 3


def watch_of(digits, out=None, **settings):
    """A watch of few digits."""
    settings = {"detector": "pixels", "quality": "none", "looks": 2, "images": DRAWN, **settings}
    return MemorizationWatch(digits[:TRAIN], digits[TRAIN : TRAIN + HELD], out=out, **settings)


def drawn_with(digits, real):
    """Drawn images of which the first are real ones."""
    return np.concatenate([real, digits[TRAIN + HELD :][: DRAWN - len(real)]])


def described(folder):
    """The statement of a watch, and the officer's words on what it found."""
    statement = make_statement(folder)
    return statement.audits[0], inline_text(findings(statement))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("settings", "stops"), [({}, True), ({"stop_on": "never"}, False), ({"looks": 1}, True)])
def test_a_few_exact_copies_are_memorization_whatever_the_share_says(digits, tmp_path, turned, settings, stops):
    watch = watch_of(digits, tmp_path / "w", **settings)
    clean = watch.look(1, drawn_with(digits, digits[:0]))
    assert (clean.same_pixels, clean.go_on) == (0, True)
    real = digits[:COPIED, ::-1, :] if turned else digits[:COPIED]
    look = watch.look(2, drawn_with(digits, real))
    assert (look.same_pixels, look.listed, look.share_low > look.nominal) == (COPIED, 0, False)
    assert look.go_on is not stops
    result = watch.result()
    verdict = watch_verdict(result)
    assert (verdict.kind, verdict.reasons[0].code) == ("fail", "watch-same-pixels")
    assert result.shown is look
    assert f"{COPIED} of {DRAWN} drawn images have the very pixels" in verdict.reasons[0].text
    assert "training images drawn" not in clean.words
    page = watch.report().read_text()
    assert "No memorization was shown" not in page
    assert "Exact copies" in page
    audit, officer = described(tmp_path / "w")
    assert audit.status == FAIL
    assert f"{COPIED} drawn images are training images" in officer
    assert "no training patient" not in officer
    assert [reason.code for reason in audit.reasons] == ["watch-same-pixels"]


def test_copies_at_an_earlier_look_are_not_forgotten(digits, tmp_path):
    watch = watch_of(digits, tmp_path / "w", stop_on="never")
    watch.look(1, drawn_with(digits, digits[:1]))
    watch.look(2, drawn_with(digits, digits[:0]))
    watch.report()
    assert watch_verdict(watch.result()).headline.startswith("Memorization was shown at step 1")
    officer = described(tmp_path / "w")[1]
    assert "1 drawn image is a training image" in officer
    assert "no training patient" not in officer


def test_images_that_held_out_patients_share_are_no_copies(digits):
    watch = MemorizationWatch(digits[:TRAIN], digits[TRAIN - 1 : TRAIN + HELD], detector="pixels", quality="none",
                              looks=1, images=DRAWN)  # fmt: skip
    look = watch.look(1, drawn_with(digits, digits[TRAIN - 1 : TRAIN]))
    assert (look.same_pixels, look.held_out_pixels) == (0, 0)  # the held-out patient was left out


def test_held_out_images_among_the_draws_are_no_null(digits, tmp_path):
    watch = watch_of(digits, tmp_path / "w")
    look = watch.look(1, drawn_with(digits, digits[TRAIN : TRAIN + DRAWN // 2]))
    assert (look.same_pixels, look.held_out_pixels, look.go_on) == (0, DRAWN // 2, True)
    verdict = watch_verdict(watch.result())
    assert verdict.kind == "warning"
    assert "Held-out images were drawn" in verdict.headline
    assert verdict.reasons[-1].code == "watch-held-out-pixels"
    assert verdict.reasons[-1].remedy in verdict.next_steps
    watch.report()
    audit, officer = described(tmp_path / "w")
    assert audit.status == UNDECIDED
    assert "watch-held-out-pixels" in [reason.code for reason in audit.reasons]
    assert "of people who should have had no part in the training" in officer


def test_draws_of_one_value_test_nothing(digits):
    watch = watch_of(digits)
    look = watch.look(1, np.zeros((DRAWN, 8, 8, 1), np.uint8))
    assert not look.compared
    assert not can_stop(watch.result())
    assert "every drawn image has one value only" in look.note
    verdict = watch_verdict(watch.result())
    assert "nothing was tested" in verdict.headline
    assert "every drawn image has one value only" in verdict.reasons[0].text
    some = watch.look(2, drawn_with(digits, np.zeros((2, 8, 8), np.uint8)))
    assert some.compared
    assert "2 drawn images have one value only" in some.note
