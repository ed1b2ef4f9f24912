"""Looks at a training: what they measure, when they stop it, what is kept and found again."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from memorisk.audits.watch.evaluations import EVALUATIONS_FILE, LISTED_FILE, EvaluationLog
from memorisk.audits.watch.memorization_watch import MemorizationWatch
from memorisk.report.columns import percent
from memorisk.runs.errors import InputError
from memorisk.runs.files import read_table
from memorisk.statistics.quality.frechet import frechet_distance

TRAIN, HELD = 600, 300


def copier(digits, share, change=0):
    """What draws images: a share of them copies of training images, the others of people in neither part.

    With ``change`` 1 each pixel of a copy differs by one grey level.
    """

    def sample(n, seed):
        """A sampler as a user would write one."""
        k = round(share * n)
        return np.concatenate([digits[:k] ^ np.uint8(change), digits[TRAIN + HELD :][: n - k]])

    return sample


def watch_of(digits, out=None, **settings):
    """A watch without FID."""
    settings = {"detector": "pixels", "quality": "none", "looks": 4, **settings}
    return MemorizationWatch(digits[:TRAIN], digits[TRAIN : TRAIN + HELD], out=out, **settings)


def test_copies_are_seen_named_and_stop_the_training(digits, tmp_path):
    watch = watch_of(digits, tmp_path / "w")
    clean, copies = (watch.look(step, copier(digits, share)) for step, share in ((10, 0.0), (20, 0.8)))
    assert clean.go_on
    assert clean.share_low < 0.05 < clean.share_high
    assert clean.listed == 0
    assert not copies.go_on
    assert copies.share_low > 0.05
    copied = {f"training {i}" for i in range(160)}
    listed = read_table(tmp_path / "w" / LISTED_FILE)
    assert copied <= set(listed["patient"])
    exact = listed[listed["patient"].isin(copied)]
    assert (exact["distance"] == 0).all()
    assert (exact["patient"] == "training " + exact["drawn"].astype(str)).all()  # the source of copy i is image i
    assert set(listed["step"]) == {20}
    assert copies.shortest_list <= copies.listed


@pytest.mark.parametrize(("stop_on", "stopped"), [("share", True), ("test", True), ("listed", True), ("never", False)])
def test_each_rule_stops_what_it_is_about(digits, stop_on, stopped):
    watch = watch_of(digits, stop_on=stop_on)
    assert watch.look(1, copier(digits, 0.0)).go_on
    assert watch.look(2, copier(digits, 0.9, 1)).go_on is not stopped


def test_a_rule_that_can_stop_nothing_is_refused_before_anything_is_written(digits, tmp_path):
    few = digits[:100], digits[100:140]
    with pytest.raises(InputError, match="stop_on share needs 104 held-out patients"):
        MemorizationWatch(*few, out=tmp_path / "w", looks=5, quality="none", detector="pixels", stop_on="share")
    with pytest.raises(InputError, match="stop_on listed needs 99 held-out patients"):
        MemorizationWatch(*few, stop_on="listed", looks=5, quality="none", detector="pixels")
    assert not (tmp_path / "w").exists()
    assert MemorizationWatch(*few, looks=5, stop=False, quality="none").real.n_held == 40
    assert MemorizationWatch(*few, looks=5, stop_on="test", quality="none").stop


def test_a_watch_that_can_never_stop_warns_and_its_looks_say_why(digits):
    with pytest.warns(UserWarning, match="can stop nothing. The rule is never, which auto chose: 5 held-out patients"):
        watch = MemorizationWatch(digits[:50], digits[200:205], looks=5, quality="none", detector="pixels")
    look = watch.look(1, copier(digits, 1.0))
    assert "nan" not in look.words
    assert "no memorized share is known of 50 patients, no list was possible" in look.words
    assert "5 held-out patients are too few to say; at least 19 are needed" in look.words
    assert look.note.rstrip(".") in look.words
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for stop, rule in ((True, "never"), (False, "auto")):  # as it was asked for
            MemorizationWatch(
                digits[:50], digits[200:205], looks=5, quality="none", detector="pixels", stop=stop, stop_on=rule
            )
        watch_of(digits)


def test_a_list_longer_than_all_patients_is_not_promised(digits):
    few = digits[:140], digits[200:240]
    watch = MemorizationWatch(*few, stop=False, stop_on="listed", looks=5, quality="none", detector="pixels")
    assert not any("holds at least" in note for note in watch.notes)
    assert any("can stop nothing: it needs 99 held-out patients" in note for note in watch.notes)
    watch = MemorizationWatch(
        digits[:140], digits[200:320], stop_on="listed", looks=5, quality="none", detector="pixels"
    )
    assert any("holds at least 116 of 140 training patients" in note for note in watch.notes)


@pytest.mark.parametrize(("held", "rule"), [(104, "share"), (103, "test"), (19, "test"), (18, "never")])
def test_without_a_name_the_rule_is_one_that_can_stop(digits, held, rule):
    watch = MemorizationWatch(digits[:50], digits[200 : 200 + held], looks=5, quality="none", detector="pixels")
    assert watch.options.stop_on == rule
    assert any("too few for any rule" in note for note in watch.notes) is (rule == "never")
    assert watch.rule.startswith(f"The rule is {rule}, which auto chose: ")
    assert "104" in watch.rule


def test_a_report_of_few_held_out_patients_says_that_little_could_have_been_shown(digits, tmp_path):
    """39 of them: no list, no limit of the share; with 300 it is said of neither."""
    few = MemorizationWatch(
        digits[:185], digits[200:239], out=tmp_path / "few", looks=5, quality="none", detector="pixels"
    )
    few.look(10, digits[700:760])
    report = few.report().read_text()
    assert "could hardly have been, with 39 held-out patients" in report
    assert f"no list below {few.looks[0].shortest_list} was possible" in report
    assert few.looks[0].shortest_list > 1
    assert f"than all but {percent(0.05)} of held-out patients are, judged by 39 of them" in report
    assert (
        report.count(
            "The rule is test, which auto chose: share needs 104 held-out patients at 5 looks, and there are 39"
        )
        == 2
    )
    many = watch_of(digits, tmp_path / "many", stop_on="share")
    many.look(10, digits[900:960])
    report = many.report().read_text()
    assert "No memorization was shown" in report
    assert "could hardly" not in report
    assert "The rule is share, as it was named." in report


def test_patience_waits_for_looks_in_a_row_and_looks_beyond_the_plan_stop_nothing(digits):
    watch = watch_of(digits, patience=2, looks=3)
    seen = [watch.look(step, copier(digits, share, 1)) for step, share in enumerate((0.9, 0.0, 0.9, 0.9), start=1)]
    assert [look.exceeded for look in seen] == [True, False, True, False]
    assert all(look.go_on for look in seen)
    assert seen[3].error == 0
    assert "More looks than were planned" in seen[3].note
    patient = watch_of(digits, patience=2, looks=3)
    assert [patient.look(step, copier(digits, 0.9)).go_on for step in (1, 2)] == [True, False]


def test_a_look_that_was_had_is_found_and_not_repeated(digits, tmp_path):
    calls = []

    def sample(n, seed):
        """Counts how often it is asked."""
        calls.append((n, seed))
        return copier(digits, 0.3)(n, seed)

    first = watch_of(digits, tmp_path / "w", images=50, seed=7)
    look = first.look(5, sample, held_out_loss=1.5)
    before = {name: (tmp_path / "w" / name).read_bytes() for name in (EVALUATIONS_FILE, LISTED_FILE)}
    again = watch_of(digits, tmp_path / "w", images=50, seed=7)
    missing = ("fid", "fid_low", "fid_high", "fid_same_number", "fid_held_out", "loss_auc")
    no_fid = dict.fromkeys(missing, 0.0)  # NaN equals nothing
    assert replace(again.look(5, sample), **no_fid) == replace(look, **no_fid)
    assert calls == [(50, 7)]
    assert before == {name: (tmp_path / "w" / name).read_bytes() for name in (EVALUATIONS_FILE, LISTED_FILE)}
    with pytest.raises(InputError, match="images = 50"):
        watch_of(digits, tmp_path / "w", images=60, seed=7)
    assert (tmp_path / "w").stat().st_mode & 0o777 == 0o700


def test_other_weights_at_a_step_are_looked_at_and_what_came_after_leaves_the_book(digits, tmp_path):
    net = nn.Linear(2, 2)
    watch = watch_of(digits, tmp_path / "w")
    for step in (1, 2, 3):
        watch.look(step, copier(digits, 0.0), weights=net)
    other = nn.Linear(2, 2)
    look = watch.look(2, copier(digits, 0.0), weights=other)
    assert [kept.step for kept in EvaluationLog(tmp_path / "w")] == [1, 2]
    assert look.number == 4  # its error is spent beside that of the three
    lines = [json.loads(line) for line in (tmp_path / "w" / "watch.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2]
    assert lines[1]["patients"] == []


def test_watching_changes_no_random_number_of_the_training(digits):
    watch = watch_of(digits)
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002 (the user's generator is what is asked about)
    wanted = torch.rand(3), np.random.rand(3)  # noqa: NPY002
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002

    def sample(n, seed):
        """Draws from everything global."""
        torch.rand(5), np.random.rand(5)  # noqa: NPY002
        torch.manual_seed(99)
        return copier(digits, 0.0)(n, seed)

    watch.look(1, sample)
    assert torch.equal(torch.rand(3), wanted[0])
    assert (np.random.rand(3) == wanted[1]).all()  # noqa: NPY002
    state = torch.get_rng_state()

    def broken(n, seed):
        """Draws, then fails."""
        torch.rand(5)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        watch.look(2, broken)
    assert torch.equal(torch.get_rng_state(), state)


def test_patients_of_arrays_are_whole_and_apart(digits):
    groups = [f"p{i // 3}" for i in range(TRAIN)]
    held = [f"h{i // 3}" for i in range(HELD)]
    watch = watch_of(digits, train_groups=groups, held_out_groups=held, stop_on="never")
    look = watch.look(1, copier(digits, 0.5))
    assert (look.n_train, look.n_held) == (TRAIN // 3, HELD // 3)
    assert set(watch.book.listed["patient"]) <= set(groups)
    with pytest.raises(InputError, match="is in training and held out"):
        watch_of(digits, train_groups=groups, held_out_groups=["p1", *held[1:]])
    with pytest.raises(InputError, match="groups are given for"):
        watch_of(digits, train_groups=groups[:5])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda n, seed: np.zeros((n, 8, 8)), "uint8 images"),
        (lambda n, seed: np.zeros((n, 9, 9), np.uint8), "are 9 x 9 x 1 uint8, the training images are stored as 8 x 8"),
        (lambda n, seed: np.zeros((n - 1, 8, 8), np.uint8), "200 images were asked for, and 199 were drawn"),
        (lambda n, seed: np.random.default_rng(0).integers(0, 9, (n, 8, 8, 3), np.uint8), "8 x 8 x 3"),
    ],
)
def test_what_is_no_image_is_refused(digits, given, message):
    with pytest.raises(InputError, match=message):
        watch_of(digits).look(1, given)


def test_images_without_distances_are_nobodys_and_do_not_end_a_training(digits):
    watch = watch_of(digits, measure="cosine")
    nothing = watch.look(1, lambda n, seed: np.zeros((n, 8, 8), np.uint8))
    assert nothing.go_on
    assert np.isnan(nothing.share)
    assert "Nothing was compared" in nothing.note

    def half(n, seed):
        """Half of them are black."""
        images = copier(digits, 0.9)(n, seed)
        images[::2] = 0
        return images

    look = watch.look(2, half)
    assert "100 drawn images took no part" in look.note
    assert (watch.book.listed["drawn"] % 2 == 1).all()


def test_fid_is_that_of_the_quality_command_beside_real_images(digits):
    watch = watch_of(digits, quality="auto", stop_on="never")
    sample = copier(digits, 0.0)
    look = watch.look(1, sample)
    assert look.fid_name == "FID (pixels, 200 synthetic, 600 real images)"
    real, drawn = (images.reshape(len(images), -1) / 255 for images in (digits[:TRAIN], sample(200, 0)))
    assert look.fid == pytest.approx(frechet_distance(real, drawn).estimate, rel=1e-6)
    assert look.fid_low < look.fid < look.fid_high
    noise = watch.look(2, lambda n, seed: np.random.default_rng(seed).integers(0, 255, (n, 8, 8), np.uint8))
    assert noise.fid_low > look.fid_high
    assert noise.fid_held_out == look.fid_held_out < 2 * look.fid
    small = watch_of(digits, quality="pixels:4", stop_on="never").look(1, sample)
    assert small.fid_name.startswith("FID (pixels:4, 200 synthetic")
    with pytest.raises(InputError, match="fitted or saved"):
        watch_of(digits, quality="pca:3")


def test_three_equal_channels_are_grey(digits):
    sample = copier(digits, 0.4)
    watch = watch_of(digits)
    grey = watch.look(1, sample)
    colour = watch.look(2, lambda n, seed: np.repeat(sample(n, seed)[..., None], 3, axis=3))
    assert (grey.share, grey.listed) == (colour.share, colour.listed)


def test_looks_are_due_every_so_many_steps(digits):
    watch = watch_of(digits, every=50)
    assert [step for step in range(0, 201) if watch.due(step)] == [50, 100, 150, 200]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"images": 0}, "images is 0"),
        ({"looks": 0}, "looks is 0"),
        ({"error": 0.7}, "error is 0.7"),
        ({"nominal": 1.0}, "nominal is 1.0"),
        ({"stop_on": "shares"}, "Did you mean 'share'"),
        ({"log": "tensorbord"}, "Did you mean 'tensorboard'"),
        ({"log_to": "x"}, "log_to is a folder for logs"),
        ({"train_split": "a"}, "train_split goes with held_out_split"),
        ({"detectors": "pixels"}, "Did you mean 'detector'"),
        ({"log": "mlflow"}, "log needs a folder"),
    ],
)
def test_wrong_settings_are_refused(digits, settings, message):
    with pytest.raises(InputError, match=message):
        watch_of(digits, **settings).look(1, copier(digits, 0.0))
