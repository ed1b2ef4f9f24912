"""The audit of a generator, end to end on some of the built-in digits."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memorisk.audits.classifier.planning.dry_run import DryRun
from memorisk.audits.generator.dose import DOSE
from memorisk.audits.generator.options import GeneratorAuditOptions
from memorisk.audits.generator.plan import (
    PATIENTS_EACH,
    draw_parts,
    make_generator_plan,
    several_findings_notes,
)
from memorisk.audits.generator.run import audit_generator
from memorisk.audits.release.statement import write_statement
from memorisk.cli.main import main
from memorisk.images.sources.registry import load_manifest
from memorisk.report.result import Result
from memorisk.runs.errors import InputError
from memorisk.runs.files import write_bytes
from memorisk.training.generators.options import GAN_LOSSES
from memorisk.training.generators.twins import jobs
from memorisk.training.generators.twins.recipes import LOSSES
from tests.audits.classifier.test_denoising_losses import OF_ANSWERS

SMALL = {"sample": 240, "steps": 30, "levels": 4, "draws": 1, "models": 6, "processes": 1}
TABLES = ("scores", "per_image", "per_group", "per_class", "attacks", "manifest")


def files(folder: Path) -> dict[str, bytes]:
    """Every result file of a run; the log alone holds times."""
    names = [f"{name}.parquet" for name in TABLES] + ["verdict.json", "summary.json", "report.html"]
    return {name: (folder / name).read_bytes() for name in names}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("generator") / "run"
    audit_generator("digits", out=out, **{**SMALL, "processes": 2})
    return out


def test_a_run_leaves_what_the_design_names(run: Path) -> None:
    for name in TABLES:
        assert (run / f"{name}.parquet").is_file()
    assert len(list((run / "weights").glob("*.safetensors"))) == 6
    assert not list((run / "checkpoints").iterdir())
    assert run.stat().st_mode & 0o777 == 0o700
    verdict = json.loads((run / "verdict.json").read_text())
    assert verdict["audit"] == "generator"
    assert verdict["status"] in ("pass", "fail", "undecided")
    scores = pd.read_parquet(run / "scores.parquet")
    assert not scores.loc[scores["split"] == "test", "member"].any()
    assert not {"correct", "p_true"} & set(scores)
    halves = scores[scores["split"] == "canary"].groupby(["seed", "image"])["member"].sum()
    assert (halves == 1).all()


def test_the_report_lists_the_settings_that_the_kind_of_generator_has(run: Path) -> None:
    training = json.loads((run / "summary.json").read_text())["training"]
    assert not {"network", "latent", "noise_schedule", "ema"} & set(training)
    assert {"kind", "steps", "batch_size", "lr", "flip", "levels", "draws"} <= set(training)


@pytest.mark.thorough
def test_weights_count_as_kept_only_while_their_files_are_there(run: Path, tmp_path: Path) -> None:
    assert json.loads((run / "summary.json").read_text())["weights_kept"]
    out = tmp_path / "run"
    shutil.copytree(run, out)
    next((out / "weights").glob("*.safetensors")).unlink()
    assert audit_generator("digits", out=out, **SMALL).summary["weights_kept"] is False


def test_twins_of_a_gan_are_audited_by_their_critic_and_their_draws(tmp_path: Path, run: Path) -> None:
    of_noise = ("levels", "draws")
    small = {name: value for name, value in SMALL.items() if name not in of_noise}
    settings = {**small, "kind": "gan", "steps": 3, "gan_channels": 32}
    plan = audit_generator("digits", out=tmp_path / "run", dry_run=True, **settings)
    assert isinstance(plan, DryRun)
    assert plan.network == "GAN of the StyleGAN2 kind"
    result = audit_generator("digits", out=tmp_path / "run", **settings)
    n = len(pd.read_parquet(tmp_path / "run" / "manifest.parquet"))
    losses = [np.load(file) for file in (tmp_path / "run" / "losses").glob("*.npy")]
    assert [loss.shape for loss in losses] == [(len(GAN_LOSSES), n)] * 6
    training = result.summary["training"]
    assert training["gan_channels"] == 32
    assert len(training["level_weights"]) == len(GAN_LOSSES)
    assert not {*of_noise, "network", "gan"} & set(training)
    assert "gan_channels" not in json.loads((run / "summary.json").read_text())["training"]
    assert result.status != "pass"


def test_gaps_of_unseen_images_have_one_standard_deviation(run: Path) -> None:
    scores = pd.read_parquet(run / "scores.parquet")
    unseen = scores[scores["split"] == "test"].pivot(index=["seed", "image"], columns="role", values="loss")
    gap = (unseen["B"] - unseen["A"]).unstack("seed").to_numpy()
    about = gap - gap.mean(axis=0)
    assert np.sqrt(np.square(about).sum() / (3 * (len(gap) - 1))) == pytest.approx(1)


def test_no_page_speaks_of_answers(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["statement", str(run), "--out", str(tmp_path / "out")]) in (0, 1)
    pages = [run / "report.html", *(tmp_path / "out").iterdir()]
    texts = [page.read_text() for page in pages if page.suffix in (".html", ".md")]
    assert main(["report", str(run)]) == 0
    for text in [*texts, capsys.readouterr().out]:
        visible = re.sub(r"<(style|script)>.*?</\1>|<[^>]+>", " ", text, flags=re.DOTALL)
        assert not (match := OF_ANSWERS.search(visible)), visible[max(0, match.start() - 80) : match.end() + 80]
        assert "classifier" not in visible
    assert "Audit of a generator" in texts[0]


def test_killed_in_a_training_one_process_continues_to_the_bytes_that_two_processes_leave(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, trained = tmp_path / "run", []
    original = jobs.score_rows

    def killed(*arguments: object) -> np.ndarray:
        trained.append(1)
        if len(trained) == 3:
            raise KeyboardInterrupt
        return original(*arguments)  # pyright: ignore[reportArgumentType]

    with monkeypatch.context() as patch:
        patch.setattr(jobs, "score_rows", killed)
        with pytest.raises(KeyboardInterrupt):
            audit_generator("digits", out=out, **SMALL)
    assert not (out / "verdict.json").exists()
    audit_generator("digits", out=out, **SMALL)
    assert files(out) == files(run)


@pytest.mark.thorough
def test_more_models_keep_the_trainings(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run" / "losses").glob("*.npy")}
    result = audit_generator("digits", out=tmp_path / "run", **{**SMALL, "models": 8})
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run" / "losses").glob("*.npy")}
    assert len(after) == 8
    assert before.items() <= after.items()
    assert len(result.summary["seeds"]) == 4


def test_another_recipe_is_refused_in_the_same_folder(run: Path) -> None:
    before = files(run)
    with pytest.raises(InputError, match="steps"):
        audit_generator("digits", out=run, **{**SMALL, "steps": 31})
    assert files(run) == before


def test_a_dry_run_writes_nothing_and_names_cost_and_power(tmp_path: Path) -> None:
    plan = audit_generator("digits", out=tmp_path / "run", dry_run=True, one_image_per_patient=True, **SMALL)
    assert isinstance(plan, DryRun)
    assert not (tmp_path / "run").exists()
    assert (plan.cost.trainings, plan.cost.steps) == (6, 180)
    assert plan.cost.images_passed == 6 * 240 * 4 * 2
    assert plan.seconds
    assert replace(plan, noticeable_gap=1.5).gap.startswith("about 1.5 SD (")
    assert "nats" not in repr(plan)


def test_what_a_generator_learned_nothing_of_is_undecided(run: Path, tmp_path: Path) -> None:
    result = audit_generator("digits", out=tmp_path / "run", **{**SMALL, "steps": 1})
    assert result.status != "pass"
    assert "nothing-learned" in {reason["code"] for reason in result.verdict["reasons"]}


def test_pseudonyms_and_redaction_leave_no_id(tmp_path: Path) -> None:
    out = tmp_path / "run"
    audit_generator("digits", out=out, **SMALL, pseudonymise=True, redact=True)
    for path in out.rglob("*"):
        if path.is_file():
            assert b"digit-" not in path.read_bytes(), path
    # losses lie in the order of the pseudonyms: they go with those of the table
    images = pd.read_parquet(out / "manifest.parquet")["image"]
    losses = pd.Series(np.mean([np.load(f).mean(axis=0) for f in (out / LOSSES).glob("*.npy")], axis=0), index=images)
    scored = pd.read_parquet(out / "scores.parquet").astype({"image": str}).groupby("image")["loss"].mean()
    assert np.corrcoef(losses[scored.index], scored)[0, 1] > 0.8


def test_designs_are_not_drawn_again_from_seed_and_names_alone(tmp_path: Path) -> None:
    write_bytes(tmp_path / "key", b"a secret of sixteen bytes")
    shown = []
    for hiding in ({}, {"pseudonymise": True, "pseudonym_key": tmp_path / "key"}):
        options = GeneratorAuditOptions(models=16, sample=240, dose=(3, 5), **hiding)
        manifest = load_manifest("digits", options)
        plan = make_generator_plan(manifest, draw_parts(manifest, [], options, 0), options)
        part = plan.twins.parts.part.astype(str)
        shown.append((np.stack([part, *(design.sign.astype(str) for design in plan.twins.designs)]), plan.repeated))
    (guessed, theirs), (drawn, own) = shown
    divided = (drawn[1:] != "0").any(axis=0)  # the others are in the training of every twin, or of none
    assert (guessed == drawn).all(axis=0)[divided].mean() < 0.05
    for dose, rows in own.items():
        assert np.isin(rows, theirs[dose]).mean() < 0.5


def test_repeated_images_are_remembered_more_and_keep_the_audit_from_passing(tmp_path: Path) -> None:
    result = audit_generator("digits", out=tmp_path / "run", **{**SMALL, "steps": 120}, dose=(2, 40))
    table = result.tables[DOSE]
    assert table["times"].tolist() == [1, 2, 40]
    assert table["n_patients"].tolist()[1:] == [PATIENTS_EACH, PATIENTS_EACH]
    assert table["low"].iloc[2] > table["high"].iloc[0]
    reasons = {reason["code"] for reason in result.verdict["reasons"]}
    assert "images-repeated" in reasons
    assert result.status != "pass"
    page = (tmp_path / "run" / "report.html").read_text()
    assert "What repetition does" in page
    assert re.search(r"Bars are 95\s% intervals over trainings, for these (images|patients)\.", page)
    saved = Result.load(tmp_path / "run")
    pd.testing.assert_frame_equal(saved.tables[DOSE], table)


def test_repeated_images_are_in_one_twin_so_often_and_are_not_scored_otherwise() -> None:
    options = GeneratorAuditOptions(models=6, sample=240, dose=(3, 5))
    manifest = load_manifest("digits", options)
    parts = draw_parts(manifest, [], options, 0)
    plan = make_generator_plan(manifest, parts, options)
    scored = set(plan.twins.items.image)
    for dose, rows in plan.repeated.items():
        assert len(np.unique(parts.groups[rows])) == PATIENTS_EACH
        assert not scored & set(manifest.images[rows])
        for design in plan.twins.designs:
            counts = np.stack([np.bincount(of, minlength=manifest.n)[rows] for of in (design.rows_a, design.rows_b)])
            assert (counts.max(axis=0) == dose).all()
            assert (counts.min(axis=0) == 0).all()
            assert np.array_equal(design.sign[rows], np.sign(counts[0] - counts[1]))
    for design in plan.twins.designs:
        assert design.slots >= max(len(design.rows_a), len(design.rows_b))
        both = min(len(design.rows_a), len(design.rows_b))
        a, b = design.rows_a[:both], design.rows_b[:both]
        assert np.mean(parts.labels[a] == parts.labels[b]) > 0.95  # slots are shared with a partner of the class
    signs = np.stack([design.sign for design in plan.twins.designs])
    assert len({tuple(row) for row in signs[:, plan.repeated[3]]}) > 1  # coins are thrown anew


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dose": (1, 4)}, r"^dose is 1 4; give different numbers of at least 2, as 4 16 64$"),
        ({"dose": (2, 3, 4, 5, 6, 7, 8)}, r"7 doses repeat the images of 70 patients"),
        ({"models": 5}, "even number"),
        ({"kind": "gan", "target": Path("gan")}, "^target is no setting of kind gan: name it with kind tiny or dit or"),
        ({"gan_channels": 64}, "^gan_channels is no setting of kind tiny: name it with kind gan$"),
        ({"kind": "gan", "gan_augment_p": 2.0}, "^gan_augment_p is 2.0; it must be between 0 and 0.8$"),
        ({"network": "S/2"}, "^network is no setting of kind tiny: name it with kind dit or unet$"),
        ({"kind": "gan"}, "kind"),
        ({"batch_size": 1000}, "batch_size of at most"),
        ({"levels": 2000}, "2000 levels are requested"),
        ({"kind": "dit", "network": "tiny/5"}, "a patch of 5 does not divide 8"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tmp_path: Path, settings: dict, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        audit_generator("digits", out=tmp_path / "run", **{**SMALL, **settings})
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_what_cannot_be_is_refused_before_the_rehearsal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memorisk.audits.generator.run.choose_models", None)
    with pytest.raises(InputError, match="a patch of 5"):
        audit_generator("digits", out=tmp_path / "run", **SMALL, kind="dit", network="tiny/5")


def test_the_order_in_which_findings_are_listed_changes_no_class() -> None:
    options = GeneratorAuditOptions(models=6, sample=240)
    manifest = load_manifest("digits", options)
    both = np.array([f"{label}|none" if n % 2 else f"none|{label}" for n, label in enumerate(manifest.labels)])
    listed = replace(manifest, table=manifest.table.assign(label=both.astype(object)))
    parts = draw_parts(listed, [], options, 0)
    assert parts.labels.tolist() == manifest.labels.tolist()
    (note,) = several_findings_notes(listed.labels)
    assert note.startswith("240 images have several findings. The class of an image is the first")
    assert several_findings_notes(manifest.labels) == []


def test_a_report_notes_several_findings(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "run"
    shutil.copytree(run, out)
    monkeypatch.setattr("memorisk.audits.generator.run.several_findings_notes", lambda labels: ["several"])
    assert "several" in audit_generator("digits", out=out, **SMALL).summary["notes"]


def test_few_images_take_smaller_steps() -> None:
    options = GeneratorAuditOptions()
    assert [options.images_a_step(n) for n in (4, 40, 256, 10_000)] == [2, 10, 64, 64]
    assert GeneratorAuditOptions(batch_size=100).images_a_step(40) == 100


def test_images_without_labels_are_one_class(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    folder = tmp_path / "scans"
    folder.mkdir()
    for patient in range(60):
        Image.fromarray(rng.integers(0, 256, (8, 8), dtype=np.uint8)).save(folder / f"p{patient:02}.png")
    settings = {**SMALL, "sample": None, "group_from": r"(p\d+)"}
    result = audit_generator(str(folder), out=tmp_path / "run", **settings)
    assert result.per_class["label"].tolist() == ["all images"]


def test_the_command_line_says_what_the_function_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    code = main(["audit", "generator", "digits", "--out", str(tmp_path / "run"), *flags])
    text = capsys.readouterr().out
    assert code == 1
    assert "SD" in text or "undecided" in text
    statement = write_statement([tmp_path / "run"], out=tmp_path / "statement")
    assert statement
