"""Number of models that an audit takes: rehearsed on its own patients before anything is trained."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import memorisk
from memorisk.audits.classifier.options import ClassifierOptions, options_from
from memorisk.audits.classifier.planning import rehearsal
from memorisk.audits.classifier.planning.plan import Parts, Plan, draw_parts, make_plan
from memorisk.audits.classifier.planning.rehearsal import (
    PILOT,
    Obstacle,
    Rehearsal,
    choose_models,
    honest_evidence,
    measured_rehearsal,
    rehearse,
)
from memorisk.images.manifest import Manifest
from memorisk.runs.files import read_json
from memorisk.runs.folder import read_config
from memorisk.statistics.verdicts.scales import CROSS_ENTROPY
from tests.thorough import thorough

QUICK = {"epochs": 1, "batch_size": 8, "processes": 1, "device": "cpu", "fail_on": "never"}
UNSURE = Rehearsal(0, 3.0, (Obstacle.CLASSES,))
SEARCH = rehearsal._search


@pytest.fixture(autouse=True)
def _searching(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search for the number of models, which other tests leave out."""
    monkeypatch.setattr(rehearsal, "_search", SEARCH)


def people(n: int, n_classes: int) -> Manifest:
    """Patients with one image each, evenly over the classes."""
    ids = [f"p{i}" for i in range(n)]
    labels = [f"c{i % n_classes}" for i in range(n)]
    return Manifest(pd.DataFrame({"image": ids, "path": ids, "label": labels, "group": ids}, dtype=object), None, "x")


def planned(n: int, n_classes: int, **settings: object) -> tuple[Manifest, Parts, ClassifierOptions, Plan]:
    """The plan of an audit of them."""
    manifest, options = people(n, n_classes), options_from(settings)
    parts = draw_parts(manifest, [], options, 0)
    return manifest, parts, options, make_plan(manifest, parts, options)


def passing_from(monkeypatch: pytest.MonkeyPatch, fewest: float) -> list[int]:
    """Let rehearsals pass from a number of models on; return the numbers that are rehearsed."""
    tried: list[int] = []

    def rehearsed(plan: Plan, options: ClassifierOptions, *, whole: bool = True) -> Rehearsal:
        """Pass or not by the number."""
        tried.append(2 * len(plan.designs))
        return replace(UNSURE, n_models=tried[-1], obstacles=() if tried[-1] >= fewest else UNSURE.obstacles)

    monkeypatch.setattr(rehearsal, "rehearse", rehearsed)
    return tried


def test_honest_losses_have_the_members_of_the_plan_and_remember_nobody() -> None:
    *_, plan = planned(120, 2, models=6)
    evidence = honest_evidence(plan, 0)
    np.testing.assert_array_equal(evidence.sign, np.stack([d.sign[plan.item_row] for d in plan.designs]))
    assert (evidence.loss_a > 0).all()
    assert (evidence.loss_b > 0).all()
    gained = (evidence.gap * evidence.sign)[evidence.sign != 0]
    assert abs(gained.mean()) < 4 * gained.std() / np.sqrt(gained.size)
    more = honest_evidence(planned(120, 2, models=10)[-1], 0)
    np.testing.assert_allclose(more.gap[:3], evidence.gap, atol=1e-12)


def test_sixteen_models_do_where_patients_are_many_and_eight_never_have_room() -> None:
    manifest, parts, options, _ = planned(400, 2)
    enough = choose_models(manifest, parts, options, hopeless=False)
    assert enough.options.models == enough.needed == 16
    assert enough.rehearsal is not None
    assert 0.5 < enough.rehearsal.gap <= 2
    few = rehearse(planned(400, 2, models=8)[-1], options)
    assert Obstacle.CLASSES in few.obstacles
    assert few.gap == np.inf
    assert rehearse(planned(400, 2, models=4)[-1], options).obstacles == (Obstacle.CLASSES,)


@pytest.mark.parametrize(("noise", "spread", "tails"), [(0.03, 0.5, 8.0), thorough(0.5, 0.4, 6.0)])
def test_the_first_models_state_the_gap_that_the_audit_of_all_models_states(
    noise: float, spread: float, tails: float
) -> None:
    """Sets whose trainings differ much less and much more than assumed."""
    *_, options, plan = planned(300, 2)
    assumed = rehearsal._classes(honest_evidence(plan, 7), options)[0]
    audit = honest_evidence(plan, 7, scale=replace(CROSS_ENTROPY, noise=noise, spread=spread, tails=tails))
    reported = rehearsal._classes(audit, options)[0]
    foreseen = measured_rehearsal(plan, options, audit.of_seeds(np.arange(PILOT))).gap
    assert 1 / 1.5 <= foreseen / reported <= 1.5
    assert not 1 / 1.5 <= assumed / reported <= 1.5


def test_measured_noise_stays_within_a_class_and_is_as_likely_of_either_sign() -> None:
    *_, plan = planned(200, 2)
    honest = honest_evidence(plan, 0)
    loud = honest.items.label == "c1"
    pilot = replace(honest, loss_b=np.where(loud, 10.0 + honest.loss_b, honest.loss_b)).of_seeds(np.arange(PILOT))
    noise = rehearsal.measured_noise(pilot, 8, np.random.default_rng(0))
    assert np.isin(np.abs(noise[:, loud]), np.abs(pilot.gap[:, loud])).all()
    assert np.isin(np.abs(noise[:, ~loud]), np.abs(pilot.gap[:, ~loud])).all()
    positive = (noise[:, loud] > 0).sum()
    assert abs(positive - noise[:, loud].size / 2) < 4 * np.sqrt(noise[:, loud].size) / 2
    quiet = np.abs(pilot.gap[:, ~loud]).mean(axis=0)
    drawn = np.abs(noise[:, ~loud]).mean(axis=0)
    halves = np.argsort(quiet)[: len(quiet) // 2], np.argsort(quiet)[len(quiet) // 2 :]
    assert drawn[halves[0]].mean() < drawn[halves[1]].mean()


@pytest.mark.parametrize("fewest", [16, 18, 22, 24, 40, 64, 66])
def test_the_smallest_number_that_passes_is_taken_and_a_named_one_stays(
    monkeypatch: pytest.MonkeyPatch, fewest: int
) -> None:
    tried = passing_from(monkeypatch, fewest)
    manifest, parts, options, _ = planned(60, 3)
    choice = choose_models(manifest, parts, options, hopeless=False)
    possible = fewest <= rehearsal.MOST_MODELS
    assert choice.options.models == (fewest if possible else 16)
    assert choice.needed == (fewest if possible else None)
    assert choice.rehearsal is not None
    assert choice.rehearsal.can_pass is possible
    assert len(tried) <= 6
    named = choose_models(manifest, parts, replace(options, seeds=(7, 5, 3)), hopeless=False)
    assert named.options.chosen_seeds == (7, 5, 3)
    assert named.named
    assert named.needed is None or named.needed >= fewest


def test_no_rehearsal_runs_where_no_number_of_models_could_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = passing_from(monkeypatch, 16)
    manifest, parts, options, plan = planned(24, 3)
    assert "3 classes have fewer than 10 patients to score" in rehearsal.whatever_models(plan)
    assert choose_models(manifest, parts, options, hopeless=False).options.models == 16
    manifest, parts, options, plan = planned(120, 2, protocol="paper")
    assert "--design balanced" in rehearsal.whatever_models(plan)
    assert choose_models(manifest, parts, options, hopeless=False).options.models == 8
    manifest, parts, options, plan = planned(120, 2)
    assert not rehearsal.whatever_models(plan)
    assert choose_models(manifest, parts, options, hopeless=True).options.models == 16
    assert not tried


@pytest.fixture
def small_set(tmp_path) -> str:
    """A table of 48 images of as many people."""
    rng = np.random.default_rng(0)
    path = tmp_path / "people.npz"
    np.savez(path, X=rng.integers(0, 256, (48, 6, 6), dtype=np.uint8), y=np.arange(48) % 2, groups=np.arange(48) + 1000)
    return str(path)


def test_a_run_says_its_number_before_it_trains_and_keeps_it(monkeypatch, tmp_path, small_set) -> None:
    tried = passing_from(monkeypatch, 18)
    told: list[str] = []
    out = tmp_path / "run"

    def killed(stage: str, done: int, total: int) -> None:
        """Stop where training begins."""
        told.append(stage)
        if stage == "training":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        memorisk.audit_classifier(small_set, out=out, progress=killed, **QUICK)
    (line,) = [stage for stage in told if stage.startswith("models: 18 models")]
    assert "the fewest by default with which an honest audit of these data passes" in line
    assert "18 trainings, about " in line
    assert told.index(line) < told.index("training")
    assert read_config(out)["models"] == 18
    passing_from(monkeypatch, 22)  # other rehearsals change nothing of a run that was begun
    tried.clear()
    result = memorisk.audit_classifier(small_set, out=out, progress=memorisk.no_progress, **QUICK)
    assert len(result.verdict["seeds"]) == 9
    assert not tried
    assert len(read_json(out / "verdict.json")["seeds"]) == 9


def test_a_run_states_its_gap_anew_after_the_first_models(monkeypatch, tmp_path, small_set) -> None:
    passing_from(monkeypatch, 8)
    seen: list[tuple[str, int]] = []
    given = QUICK | {"models": 8}
    plan = memorisk.audit_classifier(small_set, out=tmp_path / "run", dry_run=True, **given)
    assert "noticeable gap: about 3 nats (1.5 to 4.5, by how much trainings differ; the run measures that" in str(plan)
    memorisk.audit_classifier(
        small_set, out=tmp_path / "run", progress=lambda stage, done, _: seen.append((stage, done)), **given
    )
    (place,) = [i for i, (stage, _) in enumerate(seen) if stage.startswith("noticeable gap, by the noise of the first")]
    assert seen[place][0].startswith("noticeable gap, by the noise of the first 4 models: none up to 16 nats; with 8 ")
    assert "training" in {stage for stage, _ in seen[:place]}
    assert "training" in {stage for stage, _ in seen[place:]}
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text("utf-8").splitlines()]
    events = [line["event"] for line in lines]
    assert events.count("foreseen") == 1
    assert events[: events.index("foreseen")].count("trained") == 2 * PILOT
    assert not lines[events.index("foreseen")]["can_pass"]


def test_a_named_number_that_cannot_pass_is_run_after_a_line_that_says_so(monkeypatch, tmp_path, small_set) -> None:
    passing_from(monkeypatch, 18)
    told: list[str] = []
    given = QUICK | {"models": 6}
    plan = memorisk.audit_classifier(small_set, out=tmp_path / "run", dry_run=True, **given)
    (note,) = plan.notes
    assert note.startswith("this audit cannot pass with 6 models: a single patient with a gap of 2 nats would not be")
    assert "a pass needs at least 18 models (--models 18)" in note
    assert not plan.could_pass
    memorisk.audit_classifier(small_set, out=tmp_path / "run", progress=lambda stage, *_: told.append(stage), **given)
    (opening,) = [stage for stage in told if note[:250] in stage]
    assert told.index(opening) < told.index("training")
    passing_from(monkeypatch, np.inf)
    (note,) = memorisk.audit_classifier(small_set, out=tmp_path / "none", dry_run=True, **QUICK).notes
    assert "no number up to 64 can pass with 48 patients in 2 classes" in note
    assert "may fail or stay undecided" in note
