"""Attacks on a released generator, their controls, and the trap of members and others from two sources."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from scipy import stats

from memorisk.audits.classifier.attack_numbers import AttackNumbers, TargetAudit
from memorisk.audits.classifier.evidence import Evidence
from memorisk.audits.classifier.pages.wording import OTHER_ATTACKS
from memorisk.audits.classifier.planning.dry_run import DryRun
from memorisk.audits.classifier.planning.plan import Plan
from memorisk.audits.classifier.tables.attacks import attacks_for_verdict
from memorisk.audits.generator import run as run_module
from memorisk.audits.generator import target as target_module
from memorisk.audits.generator.controls import blind_control, image_features, permuted_control
from memorisk.audits.generator.evidence import generator_evidence, unseen_weights
from memorisk.audits.generator.options import GeneratorAuditOptions, options_from
from memorisk.audits.generator.plan import draw_parts, make_generator_plan
from memorisk.audits.generator.run import audit_generator
from memorisk.audits.generator.target import (
    GUIDED,
    Target,
    audit_target,
    open_generator,
    open_target,
    patient_items,
    refuse_other_split,
    twin_scores,
)
from memorisk.audits.generator.trainings import make_jobs
from memorisk.audits.release.export import release
from memorisk.audits.release.statement import make_statement
from memorisk.cli.main import main
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.models.generators.denoiser import Denoiser
from memorisk.models.generators.dit.folder import save_dit
from memorisk.models.generators.noise_attacks import NOISE_ATTACKS
from memorisk.models.generators.noise_losses import hashed_noise, noise_losses
from memorisk.models.generators.perceptron import linear_schedule, new_perceptron
from memorisk.models.generators.released import ReleasedGenerator, open_released
from memorisk.models.provenance import TrainingRecord
from memorisk.models.settings import GeneratorConfig
from memorisk.report.result import Result
from memorisk.runs.checksums import file_sha256
from memorisk.runs.errors import InputError
from memorisk.runs.files import read_json, write_json
from memorisk.scores.rmia import rmia_scores
from memorisk.scores.twin_attacks import Access
from memorisk.statistics.roc import auc
from memorisk.statistics.verdicts.attack_verdict import attack_findings
from memorisk.statistics.verdicts.reasons import FAIL
from memorisk.statistics.verdicts.scales import CROSS_ENTROPY, NOISE_ERROR
from memorisk.statistics.verdicts.units import UnitNames
from memorisk.training.generators.batches import ImageView
from memorisk.training.generators.twins.networks import ScoredNetwork
from tests.models.generators.test_unet import pipeline
from tests.models.small_dit import noise_of_training, small_dit, small_spec

SIDE, PATIENTS, UNSEEN = 8, 40, 30
ALPHA_BAR = linear_schedule()
PUBLISHED = [name for name, attack in NOISE_ATTACKS.items() if name != "loss" and not attack.needs_condition]
Network = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def pictures(rng: np.random.Generator, n: int, contrast: float = 1.0) -> np.ndarray:
    """Smooth random images, [n, 8, 8] uint8."""
    x = rng.normal(size=(n, SIDE, SIDE))
    x = (x + np.roll(x, 1, 1) + np.roll(x, 1, 2)) / np.sqrt(3)
    return np.clip(128 + 50 * contrast * x, 0, 255).round().astype(np.uint8)


def written(folder: Path, members: np.ndarray, others: np.ndarray) -> Path:
    """Write two images per patient, into the folders of a given split."""
    for part, images, first in (("train", members, 0), ("test", others, 1000)):
        (folder / part).mkdir(parents=True)
        for number, image in enumerate(images):
            Image.fromarray(image).save(folder / part / f"p{first + number // 2}_{number % 2}.png")
    return folder


def scaled(images: np.ndarray) -> torch.Tensor:
    """Pixels as a network sees them, [n, 64] in [-1, 1]."""
    return torch.from_numpy(images.reshape(len(images), -1) / 127.5 - 1)


def remembering(images: np.ndarray, share: float = 1.0) -> Network:
    """The best denoiser of these very images, mixed with that of a normal distribution of their mean and variance.

    The one predicts E[x | x_t] over the images alone; the other knows no single image.
    """
    own = scaled(images)
    mean, variance = own.mean(dim=0), own.var(dim=0).mean()

    def network(x_t: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        """Predict the noise."""
        a, y = ALPHA_BAR[times][:, None], x_t.double().flatten(1)
        smooth = (1 - a).sqrt() * (y - a.sqrt() * mean) / (a * variance + 1 - a)
        if not share:
            return smooth.view_as(x_t).to(x_t)
        distance = (y[:, None] - a.sqrt()[:, None] * own).square().sum(dim=2) / (2 * (1 - a))
        sharp = (y - a.sqrt() * (torch.softmax(-distance, dim=1) @ own)) / (1 - a).sqrt()
        return (share * sharp + (1 - share) * smooth).view_as(x_t).to(x_t)

    return network


def released(network: Network) -> ReleasedGenerator:
    """A generator that predicts noise by this function."""
    return ReleasedGenerator(new_perceptron(SIDE * SIDE, 0), Denoiser(network, ALPHA_BAR), "pixels", (SIDE * SIDE,))


@dataclass
class World:
    """Images with a given split, and twins that remember their halves a little."""

    store: ImageStore
    plan: Plan
    options: GeneratorAuditOptions
    evidence: Evidence
    weights: np.ndarray

    def attacked(self, network: Network, monkeypatch: pytest.MonkeyPatch) -> TargetAudit:
        """Audit a generator with this network."""
        monkeypatch.setattr(target_module, "open_released", lambda place, kind, lora=None: released(network))
        pair = make_jobs(Path("nowhere"), self.store, self.plan, self.options)[0]
        return audit_target(self.store, self.plan, pair, self.evidence, self.weights, self.options)

    def twins(self, share: float) -> tuple[ScoredNetwork, ScoredNetwork]:
        """Twins of the first seed that remember their halves by a share."""
        pixels, design = np.asarray(self.store.images)[..., 0], self.plan.designs[0]
        images = ImageView(self.store, None, None).shown(np.arange(len(pixels)), torch.device("cpu"))
        a, b = (
            ScoredNetwork(None, Denoiser(remembering(pixels[rows], share), ALPHA_BAR), images)
            for rows in (design.rows_a, design.rows_b)
        )
        return a, b


def world(folder: Path, members: np.ndarray, others: np.ndarray) -> World:
    """Build one; nothing is trained."""
    images = written(folder / "images", members, others)
    options = GeneratorAuditOptions(
        target=folder / "net.safetensors", splits="given-random", models=6, levels=4, draws=1, steps=10, batch_size=8,
        group_from=r"(p\d+)_", device="cpu",
    )  # fmt: skip
    manifest = load_manifest(images, options)
    store = build_store(manifest, options)
    parts = draw_parts(store.manifest, [], options, options.split_seed)
    plan = make_generator_plan(store.manifest, parts, options).twins
    pixels = np.asarray(store.images)[..., 0]
    x, ids = scaled(pixels).float().view(-1, 1, SIDE, SIDE), store.manifest.images.tolist()
    times = np.array([20, 100, 250, 500])
    halves = [
        np.stack([
            noise_losses(Denoiser(remembering(pixels[getattr(d, rows)], 0.2), ALPHA_BAR), x, ids, times, 1)
            for d in plan.designs
        ])
        for rows in ("rows_a", "rows_b")
    ]  # fmt: skip
    weights = unseen_weights(plan, halves[0], halves[1])
    return World(store, plan, options, generator_evidence(plan, halves[0], halves[1], weights), weights)


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Members and others from one source."""
    rng = np.random.default_rng(5)
    return world(tmp_path_factory.mktemp("alike"), pictures(rng, 2 * PATIENTS), pictures(rng, 2 * UNSEEN))


@pytest.fixture(scope="module")
def trap(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Members of low contrast, others of high contrast."""
    rng = np.random.default_rng(6)
    return world(tmp_path_factory.mktemp("trap"), pictures(rng, 2 * PATIENTS, 0.4), pictures(rng, 2 * UNSEEN))


def judged(target: TargetAudit) -> tuple[list[str], list[str]]:
    """Codes of what attacks on the target say: failures, and doubts."""
    tried = attacks_for_verdict(pd.DataFrame({"label": []}), target, True, {})
    reasons = attack_findings(tried, 0.6, UnitNames("patient", "patients", "spreads"), PATIENTS + UNSEEN)
    fails = [reason.code for reason in reasons if reason.bears_on == FAIL]
    return fails, [reason.code for reason in reasons if reason.bears_on != FAIL]


def test_a_generator_that_remembers_is_found_by_every_attack(alike: World, monkeypatch: pytest.MonkeyPatch) -> None:
    target = alike.attacked(
        remembering(np.asarray(alike.store.images)[alike.plan.parts.rows("canary"), ..., 0]), monkeypatch
    )
    assert set(target.attacks) == {"loss_threshold", "lira_offline", "rmia_offline", *PUBLISHED}
    for name, numbers in target.attacks.items():
        assert numbers.auc.low > 0.6, name
    assert all(control.at_chance for control in target.controls.values())
    assert judged(target)[0] == ["attack-succeeds"]
    assert target.beats_guessing
    assert float(target.loss_members or 0) < float(target.loss_test or 0)


def test_a_generator_that_saw_neither_side_is_at_chance(alike: World, monkeypatch: pytest.MonkeyPatch) -> None:
    target = alike.attacked(remembering(pictures(np.random.default_rng(9), 500), 0.2), monkeypatch)
    for name, numbers in target.attacks.items():
        assert numbers.at_chance, name
    assert list(target.controls) == ["unseen_loss", "blind", "permuted"]
    assert all(control.at_chance for control in target.controls.values())
    assert judged(target)[0] == []


def test_in_the_trap_attacks_find_members_of_a_generator_that_saw_none_and_the_controls_stop_it(
    trap: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = trap.attacked(remembering(pictures(np.random.default_rng(8), 500, 0.4), 0.0), monkeypatch)
    for name in ("loss_threshold", *PUBLISHED):
        assert target.attacks[name].auc.low > 0.6, name
    assert target.blind is not None
    assert target.blind.auc.estimate > 0.95
    assert not target.blind.at_chance
    assert target.permuted is not None
    assert target.permuted.at_chance
    assert judged(target) == ([], ["attacks-not-comparable"])


def test_without_the_blind_probe_the_trap_would_fail_the_audit(trap: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe alone is enough to stop the verdict, and nothing else would have done so."""
    target = trap.attacked(remembering(pictures(np.random.default_rng(8), 500, 0.4), 0.0), monkeypatch)
    assert target.permuted is not None
    assert judged(replace(target, control=target.permuted)) == ([], ["attacks-not-comparable"])
    assert judged(replace(target, control=target.permuted, blind=None))[0] == ["attack-succeeds"]


def test_each_published_attack_has_a_control_on_twins_that_did_not_see_the_image(
    alike: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    twins = alike.twins(1.0)
    saw = alike.evidence.member_a[0], alike.evidence.member_b[0]
    scores = twin_scores(twins, alike.plan, *saw)
    assert list(scores) == PUBLISHED
    (x,), ids = twins[0].images.batches([torch.from_numpy(alike.plan.item_row)]), alike.plan.items.image.tolist()
    for name, own in scores.items():
        by_a, by_b = (NOISE_ATTACKS[name].function(twin.denoiser, x, ids, None) for twin in twins)
        np.testing.assert_allclose(own[saw[1]], by_a[saw[1]], rtol=1e-5)
        np.testing.assert_allclose(own[saw[0]], by_b[saw[0]], rtol=1e-5)
        neither = ~(saw[0] | saw[1])
        assert np.isclose(own[neither], by_a[neither], rtol=1e-5).mean() == pytest.approx(0.5, abs=0.2)
        assert np.minimum(abs(own - by_a), abs(own - by_b))[neither] == pytest.approx(0, abs=1e-4)
    opened = iter(twins)
    monkeypatch.setattr(target_module, "open_twin", lambda job: next(opened))
    target = alike.attacked(remembering(pictures(np.random.default_rng(9), 500), 0.2), monkeypatch)
    assert list(target.own_controls) == PUBLISHED
    assert all(control.at_chance for control in target.controls.values())
    confidence = {name: target.control_confidence(name) for name in target.controls}
    assert confidence.pop("blind") == confidence.pop("permuted") == 0.975
    assert list(confidence.values()) == pytest.approx([1 - 0.025 / (1 + len(PUBLISHED))] * (1 + len(PUBLISHED)))


def test_a_control_of_one_attack_that_fails_stops_the_verdict(trap: World, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = iter(trap.twins(0.0))
    monkeypatch.setattr(target_module, "open_twin", lambda job: next(opened))
    target = trap.attacked(remembering(pictures(np.random.default_rng(8), 500, 0.4), 0.0), monkeypatch)
    assert not any(control.at_chance for control in target.own_controls.values())
    one = {"pia": target.own_controls["pia"]}
    assert judged(replace(target, control=target.permuted, blind=None, own_controls=one)) == (
        [],
        ["attacks-not-comparable"],
    )


def test_a_patient_counts_once_with_the_mean_of_the_scores(alike: World, monkeypatch: pytest.MonkeyPatch) -> None:
    target = alike.attacked(remembering(pictures(np.random.default_rng(9), 50), 0.2), monkeypatch)
    counts = target.attacks["pia"].counts
    assert (counts.n_members, counts.n_non_members) == (PATIENTS, UNSEEN)
    assert (target.n_members, target.n_non_members) == (2 * PATIENTS, 2 * UNSEEN)
    patients, place = patient_items(alike.plan.items, by_class=False)
    assert len(patients) == PATIENTS + UNSEEN
    assert (patients.group[place] == alike.plan.items.group).all()


def test_every_attack_names_its_access_and_has_a_title(alike: World, monkeypatch: pytest.MonkeyPatch) -> None:
    target = alike.attacked(remembering(pictures(np.random.default_rng(9), 50), 0.2), monkeypatch)
    assert dict(target.access) == dict.fromkeys(target.attacks, Access.WEIGHTS)
    assert not {*NOISE_ATTACKS, GUIDED} - {"loss"} - set(OTHER_ATTACKS)


def test_one_more_twin_is_one_more_twin_and_another_model_is_not(alike: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = np.asarray(alike.store.images)[..., 0]
    own = alike.attacked(remembering(pixels[alike.plan.parts.rows("canary")], 0.9), monkeypatch).replication
    assert own is not None
    assert own.accuracy is None
    assert not own.replicated
    assert own.loss_members is not None
    assert own.loss_members.target < own.loss_members.low


def simulated(n_members: int, n_others: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Membership, class and id of patients."""
    member = np.arange(n_members + n_others) < n_members
    label = np.random.default_rng([3, seed]).choice(["a", "b"], len(member))
    return member, label, np.arange(len(member)).astype(str)


def test_controls_of_equal_sides_hold_in_most_worlds() -> None:
    """Each at 98.3 %: of 60 worlds, more than four failures happen by chance in 0.3 %."""
    failed = {"blind": 0, "permuted": 0}
    for seed in range(60):
        member, label, group = simulated(40, 30, seed)
        rng = np.random.default_rng([4, seed])
        features = image_features(rng.integers(0, 256, (70, 8, 8, 1)).astype(np.uint8))
        failed["blind"] += not blind_control(features, member, label, group).at_chance
        failed["permuted"] += not permuted_control(rng.normal(size=70), member, label, group).at_chance
    assert max(failed.values()) <= 4, failed


def test_the_permuted_control_sees_a_class_that_is_more_frequent_among_members() -> None:
    member, _, group = simulated(60, 60, 0)
    label = np.where(np.r_[np.arange(60) < 50, np.arange(60) < 10], "a", "b")
    rng = np.random.default_rng(0)
    by_class = permuted_control((label == "a") + 0.1 * rng.normal(size=120), member, label, group)
    assert by_class.auc.low > 0.6
    by_member = permuted_control(member + 0.1 * rng.normal(size=120), member, np.full(120, "a"), group)
    assert by_member.at_chance


def test_the_blind_probe_sees_noise_that_no_mean_shows() -> None:
    rng = np.random.default_rng(1)
    member, label, group = simulated(60, 60, 0)
    images = 128 + np.where(member, 10, 30)[:, None, None, None] * rng.normal(size=(120, 32, 32, 1))
    numbers = blind_control(image_features(images), member, label, group)
    assert numbers.auc.estimate > 0.95
    assert not numbers.at_chance


def test_the_blind_probe_behaves_without_a_difference_and_never_with_a_plain_one() -> None:
    """An interval about an AUC of 0.97 reached 0.5 in a third of such sets; the band of chance does not move."""
    behaves: dict[bool, list[bool]] = {False: [], True: []}
    for seed in range(24):
        rng = np.random.default_rng(seed)
        member, label, group = simulated(60, 60, seed)
        for differs, kept in behaves.items():
            size = np.where(member, 10.0, 13.0 if differs else 10.0)[:, None, None, None]
            images = 128 + size * rng.normal(size=(120, 16, 16, 1))
            kept.append(blind_control(image_features(images), member, label, group).at_chance)
    assert not any(behaves[True])
    assert sum(behaves[False]) >= stats.binom.ppf(0.001, 24, 0.94)


def test_cells_have_mean_and_deviation_of_their_pixels() -> None:
    images = np.random.default_rng(2).integers(0, 256, (3, 19, 16, 2)).astype(np.uint16)
    features = image_features(images)
    mean, deviation = (part.reshape(3, 8, 8, 2) for part in (features[:, :128], features[:, 128:256]))
    cell = images[:, 0:2, 2:4].astype(float)
    np.testing.assert_allclose(mean[:, 0, 1], cell.mean(axis=(1, 2)))
    np.testing.assert_allclose(deviation[:, 0, 1], cell.std(axis=(1, 2)), atol=1e-9)
    np.testing.assert_allclose(features[:, 256:258], images.std(axis=(1, 2)))
    np.testing.assert_allclose(features[:, -2:], images.max(axis=(1, 2)))


def test_a_control_of_too_few_patients_is_not_measured_and_does_not_hold() -> None:
    member, label, group = simulated(20, 4, 0)
    numbers: AttackNumbers = blind_control(np.zeros((24, 3)), member, label, group)
    assert np.isnan(numbers.auc.estimate)
    assert not numbers.at_chance
    assert "so few patients" in numbers.note


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A whole audit of a tiny generator that was not trained, without names of patients."""
    root = tmp_path_factory.mktemp("whole")
    rng = np.random.default_rng(7)
    images = written(root / "images", pictures(rng, 48, 0.3), pictures(rng, 32))
    save_file(new_perceptron(SIDE * SIDE, 3).state_dict(), root / "net.safetensors", metadata={"epoch": "3"})
    result = audit_generator(
        images, out=root / "run", target=root / "net.safetensors", splits="given-random", models=2, steps=2,
        batch_size=8, levels=2, draws=1, processes=1, device="cpu",
    )  # fmt: skip
    assert isinstance(result, Result)
    return root, result


def test_the_plan_counts_the_attacks_on_the_target_and_on_the_twins(run: tuple[Path, Result], tmp_path: Path) -> None:
    root, _ = run
    few: dict[str, Any] = {"models": 2, "steps": 2, "batch_size": 8, "levels": 2, "draws": 1}
    plans = {}
    for target in (None, root / "net.safetensors"):
        plan = audit_generator(
            root / "images", out=tmp_path / "run", target=target, splits="given-random", dry_run=True, **few
        )
        assert isinstance(plan, DryRun)
        plans[target is None] = plan
    a_score, published = 2 * 2, sum(attack.passes for name, attack in NOISE_ATTACKS.items() if name in PUBLISHED)
    passes = {alone: plan.cost.images_passed or 0 for alone, plan in plans.items()}
    assert passes[False] - passes[True] == 80 * (a_score + 2 * published)


def test_a_run_says_first_that_the_controls_fail(run: tuple[Path, Result]) -> None:
    _, result = run
    assert result.status == "undecided"
    reasons = {reason["code"]: reason for reason in result.verdict["reasons"]}
    assert reasons["target-control-fails"]["gravity"] == "first"
    assert "a probe of the images without any model has AUC" in reasons["target-control-fails"]["text"]
    assert "target-learned-nothing" in reasons
    assert set(result.verdict["target"]["aucs"]) == {"loss_threshold", *PUBLISHED}
    assert list(result.summary["target"]["own_controls"]) == PUBLISHED
    assert [row["label"] for row in result.summary["target"]["classes"]] == []  # one class is all of them


def test_the_page_and_the_statement_name_attacks_access_and_controls(run: tuple[Path, Result]) -> None:
    root, _ = run
    page = (root / "run" / "report.html").read_text()
    section = page[page.index('id="target"') :]
    for text in (
        "SecMI-stat",
        "weights",
        "a probe of the images without any model has AUC",
        "PIA on models that saw neither has AUC",
        "What these attacks do",
        "A control fails",
    ):
        assert text in section, text
    assert "nats" not in section
    assert "--design" not in page
    (audit,) = make_statement(root / "run").audits
    titles = {figure.name: figure.title for figure in audit.figures}
    assert titles["target_control/control_of_sima"].endswith("SimA on models that saw neither")
    assert titles["target_auc/sima"] == "AUC of SimA on the very model, which needs its weights"
    assert audit.subject.what == "weights"
    assert not any("no released file" in sentence for sentence in audit.limits)


def test_the_statement_binds_the_very_weights(run: tuple[Path, Result]) -> None:
    root, result = run
    out = root / "out.safetensors"
    release(root / "run", out)
    assert file_sha256(out) == result.summary["target"]["tensors_sha256"] != file_sha256(root / "net.safetensors")
    (audit,) = make_statement(root / "run", weights=[out]).audits
    assert audit.subject.sha256 == (file_sha256(out),)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Line of the refusal."""
    assert main(["audit", "generator", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1, error
    return error


def test_bad_targets_are_refused_in_one_line_before_anything_is_written(
    run: tuple[Path, Result], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, _ = run
    images, out = root / "images", tmp_path / "run"
    wide = tmp_path / "wide.safetensors"
    save_file(new_perceptron(5, 0).state_dict(), wide)
    flat = tmp_path / "flat"
    flat.mkdir()
    for file in images.rglob("*.png"):
        (flat / file.name).write_bytes(file.read_bytes())
    small = ("--models", "2", "--steps", "2", "--batch-size", "8", "--levels", "2", "--out", str(out))
    assert "draws 5 values, and these images have 1 x 8 x 8" in refused(
        capsys, str(images), *small, "--target", str(wide)
    )
    assert "gives no split" in refused(capsys, str(flat), *small, "--target", str(wide))
    assert "give one" in refused(capsys, str(images), *small, "--dose", "4", "--target", str(wide))
    assert not out.exists()


def test_a_target_is_opened_before_the_images_are_decoded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").write_bytes(b"no picture")
    save_file({"weight": torch.zeros(2)}, tmp_path / "other")
    place = ("--out", str(tmp_path / "run"), "--target", str(tmp_path / "other"))
    assert "other holds no tiny generator" in refused(capsys, str(tmp_path / "images"), *place)


def test_classes_of_a_target_are_compared_before_the_images_are_decoded(
    transformer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    for part, n in (("train", 12), ("test", 4)):
        for name in ("c0", "d"):
            (tmp_path / "images" / part / name).mkdir(parents=True)
            for number, image in enumerate(pictures(rng, n)):
                Image.fromarray(image).save(tmp_path / "images" / part / name / f"{part}{name}{number}.png")
    monkeypatch.setattr(run_module, "build_store", lambda *_, **__: pytest.fail("the images were decoded"))
    small = ("--models", "2", "--kind", "dit", "--out", str(tmp_path / "run"), "--target", str(transformer))
    assert "dit has no class 'd', which the images have" in refused(capsys, str(tmp_path / "images"), *small)


def test_files_that_hold_no_tiny_generator_are_refused(tmp_path: Path) -> None:
    whole = new_perceptron(SIDE * SIDE, 0).state_dict()
    for name, tensors, message in (
        ("other", {"weight": torch.zeros(2)}, "holds no tiny generator"),
        ("short", {k: v for k, v in whole.items() if "layers.1" not in k}, "is missing"),
        ("more", whole | {"more": torch.zeros(1)}, "more is unknown"),
        ("infinite", {k: v * torch.inf for k, v in whole.items()}, "not finite"),
    ):
        save_file(tensors, tmp_path / name)
        with pytest.raises(InputError, match=message):
            open_released(tmp_path / name, "tiny")
    (tmp_path / "torn").write_bytes((tmp_path / "other").read_bytes()[:40])
    torch.save({"enter.weight": Hostile()}, tmp_path / "pickled")
    for name in ("torn", "pickled"):
        with pytest.raises(InputError, match=name):
            open_released(tmp_path / name, "tiny")
    with pytest.raises(InputError, match="is a folder"):
        open_released(tmp_path, "tiny")
    with pytest.raises(InputError, match="is a file"):
        open_released(tmp_path / "other", "dit")


class Hostile:
    """An object that runs code when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, ...]]:
        return (pytest.fail, ("code of the file ran",))


@pytest.fixture
def transformer(tmp_path: Path) -> Path:
    """Folder of a DiT of three classes, as `train generator` writes it."""
    network = small_dit(small_spec("class", side=SIDE, channels=1))
    config = GeneratorConfig(
        kind="dit", name="small", size=(SIDE, SIDE), channels=1, conditioned_on="class", classes=("c0", "c1", "c2")
    )
    save_dit(network, tmp_path / "dit", config, scheduler=noise_of_training(variance_type="fixed_large"))
    return tmp_path / "dit"


def test_a_folder_of_diffusers_is_the_same_generator(transformer: Path) -> None:
    own = open_released(transformer, "dit")
    (transformer / "generator.json").unlink()
    write_json(transformer / "model_index.json", {"id2label": {"0": "c0", "1": "c1", "2": "c2"}})
    of_diffusers = open_released(transformer, "dit")
    x = torch.randn(2, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    predictions = [
        one.denoiser.predict_noise(x, 300, label)
        for one in (own, of_diffusers)
        for label in (None, torch.tensor([0, 2]))
    ]
    assert torch.equal(predictions[0], predictions[2])
    assert torch.equal(predictions[1], predictions[3])
    assert not torch.allclose(predictions[0], predictions[1])
    assert own.classes == of_diffusers.classes == ("c0", "c1", "c2")
    assert own.shape == of_diffusers.shape == (1, SIDE, SIDE)


def test_a_generator_of_classes_is_attacked_with_them(alike: World, transformer: Path) -> None:
    options = replace(alike.options, kind="dit", target=transformer)
    label = np.resize(np.array(["c0", "c1", "c2"], dtype=object), len(alike.plan.items))
    plan = replace(alike.plan, items=replace(alike.plan.items, label=label))
    job = make_jobs(Path("nowhere"), alike.store, alike.plan, alike.options)[0][0]
    target = open_target(alike.store, plan, job, options)
    rows = np.array([0, 1, 2, 5])
    scores = target.published(rows)
    assert list(scores) == [*PUBLISHED, "clid"]
    x = scaled(np.asarray(alike.store.images)[plan.item_row[rows]]).float().view(-1, 1, SIDE, SIDE)
    of_classes = NOISE_ATTACKS["clid"].function(
        target.generator.denoiser, x, plan.items.image[rows].tolist(), torch.tensor([0, 1, 2, 2])
    )
    np.testing.assert_allclose(scores["clid"], of_classes, atol=1e-6)  # a difference of float32 losses near 1
    assert np.ptp(of_classes) > 1e-3
    with pytest.raises(InputError, match="has no class 'all images'"):
        open_target(alike.store, alike.plan, job, options)


def test_guidance_adds_the_loss_of_the_guided_prediction(
    alike: World, transformer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scale = 3.0
    label = np.resize(np.array(["c0", "c1", "c2"], dtype=object), len(alike.plan.items))
    plan = replace(alike.plan, items=replace(alike.plan.items, label=label))
    evidence = replace(alike.evidence, items=replace(alike.evidence.items, label=label))
    job = make_jobs(Path("nowhere"), alike.store, plan, alike.options)[0][0]
    options = replace(alike.options, kind="dit", target=transformer, guidance=scale)
    target = open_target(alike.store, plan, job, options)
    rows = np.array([0, 1, 5])
    x = scaled(np.asarray(alike.store.images)[plan.item_row[rows]]).float().view(-1, 1, SIDE, SIDE)
    expected = np.zeros((len(target.times), len(rows)))
    network, shares = target.generator.network, target.generator.denoiser.alpha_bar
    for column, (image, ident, number) in enumerate(zip(x, plan.items.image[rows], (0, 1, 2), strict=True)):
        for row, t in enumerate(target.times.tolist()):
            for draw in range(2 * target.pairs):
                e = hashed_noise(ident, draw, image.shape)
                x_t = (shares[t].sqrt() * image + (1 - shares[t]).sqrt() * e).float()[None]
                times = torch.tensor([t])
                none, own = (network(x_t, times, torch.tensor([n])).sample[:, :1] for n in (3, number))  # 3 is no class
                error = none + scale * (own - none) - e
                expected[row, column] += float(error.square().mean()) / (2 * target.pairs)
    losses = target.guided_losses(rows)
    assert losses is not None
    np.testing.assert_allclose(losses, expected, rtol=1e-4)

    def audited(**more: float) -> TargetAudit:
        return audit_target(alike.store, plan, (job, job), evidence, alike.weights, replace(options, **more))

    guided, plain = audited(), audited(guidance=1.0)
    assert guided.guidance == scale
    assert plain.guidance is None
    assert set(guided.attacks) - set(plain.attacks) == {"guided_loss"}
    assert {name: guided.attacks[name].auc for name in plain.attacks} == {k: v.auc for k, v in plain.attacks.items()}
    monkeypatch.setattr(Target, "guided_losses", lambda self, rows: self.losses(rows))
    assert audited().attacks["guided_loss"].auc == plain.attacks["loss_threshold"].auc


def test_guidance_needs_a_condition_and_a_value_for_none(alike: World, transformer: Path, tmp_path: Path) -> None:
    for settings, message in (
        ({"guidance": 2.0}, "name it with target"),
        ({"guidance": 2.0, "target": transformer}, "no setting of kind tiny: name it with kind dit or unet"),
        ({"guidance": -1.0, "target": transformer, "kind": "dit"}, "must be 0 or more"),
    ):
        with pytest.raises(InputError, match=message):
            options_from(settings).validate()
    free = small_dit(small_spec("none", side=SIDE, channels=1))
    config = GeneratorConfig(kind="dit", name="free", size=(SIDE, SIDE), channels=1)
    save_dit(free, tmp_path / "free", config, scheduler=noise_of_training(variance_type="fixed_large"))
    classes = pipeline(tmp_path / "classes", num_class_embeds=3)
    never = read_json(transformer / "generator.json")
    never["details"] = {"recipe": {"drop_condition": 0}}
    write_json(transformer / "generator.json", never, recorded=True)
    for kind, folder, message in (
        ("dit", tmp_path / "free", "--target free has no condition"),
        ("unet", classes, "--target classes predicts nothing without a class"),
        ("dit", transformer, "was trained with drop_condition 0"),
    ):
        with pytest.raises(InputError, match=message):
            open_generator(replace(alike.options, kind=kind, target=folder, guidance=2.0))


def test_hostile_folders_are_refused_and_run_no_code(transformer: Path) -> None:
    config = read_json(transformer / "transformer" / "config.json")
    weights = transformer / "transformer" / "diffusion_pytorch_model.safetensors"
    (transformer / "generator.json").unlink()
    write_json(
        transformer / "transformer" / "config.json", config | {"auto_map": {"AutoModel": "own.Network"}}, recorded=True
    )
    (transformer / "transformer" / "own.py").write_text("raise SystemExit('code of the folder ran')\n")
    assert open_released(transformer, "dit").shape == (1, SIDE, SIDE)
    write_json(transformer / "transformer" / "config.json", config | {"_class_name": "own.Network"}, recorded=True)
    with pytest.raises(InputError, match="is of class"):
        open_released(transformer, "dit")
    write_json(transformer / "transformer" / "config.json", config, recorded=True)
    weights.unlink()
    torch.save({"pos_embed.proj.weight": Hostile()}, weights.with_suffix(".bin"))
    with pytest.raises(InputError, match="cannot be loaded"):
        open_released(transformer, "dit")


def test_a_target_whose_record_contradicts_the_split_is_refused(alike: World) -> None:
    """Test images of its training on the side of the others would make every attack blind."""
    store, parts = alike.store, alike.plan.parts
    network = remembering(pictures(np.random.default_rng(9), 20), 0.0)
    members, test = (np.flatnonzero(np.isin(parts.part, names)) for names in (("canary", "train"), ("test",)))
    for rows, words in (
        (np.append(members, test[:1]), "2 of the"),  # the other image of the patient counts, too
        (members[5:], "of the images of train were not"),
        (members, ""),
    ):
        record = TrainingRecord.of(store, {"training": rows})
        generator = replace(released(network), own=SimpleNamespace(seen_parts=record.parts))
        if words:
            with pytest.raises(InputError, match=words):
                refuse_other_split(generator, store, parts, "net")
        else:
            refuse_other_split(generator, store, parts, "net")
    refuse_other_split(released(network), store, parts, "net")  # without a record


def test_the_split_of_a_target_is_the_given_one(tmp_path: Path) -> None:
    assert options_from({"target": tmp_path / "net.safetensors"}).splits == "given"
    assert options_from({"target": tmp_path / "net.safetensors", "splits": "given-random"}).splits == "given-random"
    assert options_from({}).splits == "redraw"


def test_references_count_in_rmia_of_a_generator() -> None:
    """Errors of thousands of SD are no log-probabilities: below a = 1 the references were a constant."""
    rng = np.random.default_rng(3)
    n = 200
    difficulty = rng.gamma(4.0, 500.0, n)
    member = np.arange(n) < 100
    own = difficulty + rng.normal(size=n) - 3.0 * member
    references = -(difficulty + rng.normal(size=(6, n)))
    population = ~member & (np.arange(n) % 2 == 0)
    arrays = np.where(population, np.nan, -own), None, references, -own[population], references[:, population]
    aucs = {}
    for scale in (CROSS_ENTROPY, NOISE_ERROR):
        score = rmia_scores(*arrays, mode="offline", offline_a=scale.rmia_offline_a, log=True)
        aucs[scale.name] = auc(score[member], score[~member & ~population])
    assert aucs["spreads"] > 0.9
    assert aucs["nats"] < 0.6
