"""Drawing from a released generator: copies are found and enter the verdict; a killed run continues."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from safetensors.torch import save_file

from memorisk.audits.classifier.attack_numbers import Cliques, Extraction
from memorisk.audits.classifier.planning.plan import Parts
from memorisk.audits.comparison import second_look
from memorisk.audits.generator import extraction, target
from memorisk.audits.generator.extraction import Extracted, extract, extraction_cost, least_noticed_share
from memorisk.audits.generator.options import GeneratorAuditOptions
from memorisk.audits.generator.plan import draw_parts
from memorisk.audits.generator.reasons import CLIQUES, EXTRACTED
from memorisk.audits.generator.run import audit_generator
from memorisk.audits.release.statement import make_statement
from memorisk.cli.main import main
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import ImageStore, build_store
from memorisk.models.generators.denoiser import Denoiser
from memorisk.models.generators.perceptron import new_perceptron
from memorisk.models.generators.released import ReleasedGenerator
from memorisk.report.result import Result
from memorisk.runs.errors import InputError
from memorisk.runs.folder import RunFolder
from memorisk.runs.workload import no_progress
from tests.audits.generator.test_target import ALPHA_BAR, SIDE, pictures, remembering, written

pytestmark = pytest.mark.usefixtures("quick")
N_DRAWN = 120
FILES = ("manifest.csv", "audit/verdict.json", "audit/result.sha256")


@pytest.fixture(scope="module")
def quick() -> None:
    """Compare by pixels, and look at few pairs again: what is found here needs no more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(second_look, "MOST_IMAGES", 8)
        patch.setattr(extraction, "DEFAULT_DETECTOR", f"pixels:{SIDE}")
        yield


@pytest.fixture(scope="module")
def members() -> np.ndarray:
    return pictures(np.random.default_rng(11), 40)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory, members: np.ndarray) -> Path:
    """Twenty patients of the training, forty others."""
    return written(tmp_path_factory.mktemp("drawn") / "images", members, pictures(np.random.default_rng(12), 80))


def opened(images: Path, folder: Path, **more: object) -> tuple[ImageStore, Parts, GeneratorAuditOptions]:
    """Images, parts and options of an extraction."""
    options = GeneratorAuditOptions(
        target=folder / "net.safetensors", splits="given-random", group_from=r"(p\d+)_", device="cpu", extract=N_DRAWN,
        **more,
    )  # fmt: skip
    store = build_store(load_manifest(images, options), options)
    return store, draw_parts(store.manifest, [], options, 0), options


def releasing(seen: np.ndarray, share: float = 1.0) -> ReleasedGenerator:
    """A generator that remembers images, at a share of 0 their mean and variance alone."""
    network = Denoiser(remembering(seen, share), ALPHA_BAR)
    return ReleasedGenerator(new_perceptron(SIDE * SIDE, 0), network, "pixels", (SIDE * SIDE,))


def extracted(
    generator: ReleasedGenerator, images: Path, out: Path, patch: pytest.MonkeyPatch, **more: object
) -> Extracted:
    """Extract from a generator into a run folder."""
    patch.setattr(extraction, "open_released", lambda place, kind, lora=None: generator)
    store, parts, options = opened(images, out, **more)
    out.mkdir(exist_ok=True)
    return extract(RunFolder(out), store, parts, options, no_progress)


def test_patients_that_are_drawn_fail_the_audit(
    images: Path, members: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = extracted(releasing(members), images, tmp_path / "run", monkeypatch)
    failure, limit = outcome.reasons
    assert (failure.code, failure.bears_on) == ("patients-drawn", "fail")
    assert limit.code == "rare-draws"
    assert outcome.numbers.status == "fail"
    assert outcome.numbers.certain
    assert outcome.numbers.n_certain_patients >= 18  # of 20: 120 draws of 40 images miss each with probability 0.05
    pairs = outcome.tables[EXTRACTED]
    assert set(pairs["patient"]) <= {f"p{number}" for number in range(20)}
    cliques, table = outcome.numbers.cliques, outcome.tables[CLIQUES]
    assert cliques.n_cliques == len(table) >= 15
    assert cliques.n_images == table["n_images"].sum() <= N_DRAWN
    assert (np.diff(table["n_images"]) <= 0).all()
    for row in table.itertuples():
        assert row.nearest_image.startswith(f"train/{row.nearest_group}_"), row


def test_a_generator_that_knows_no_image_is_not_failed(
    images: Path, members: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = extracted(releasing(members, 0.0), images, tmp_path / "run", monkeypatch)
    assert outcome.numbers.status != "fail"
    assert [reason.bears_on for reason in outcome.reasons] == ["doubt", "limit"]  # pixels are weak features
    assert outcome.numbers.n_certain_patients == outcome.numbers.cliques.n_cliques == 0
    assert outcome.reasons[0].remedy


def test_test_patients_that_are_drawn_do_not_count_as_extracted(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = pictures(np.random.default_rng(12), 80)
    outcome = extracted(releasing(others), images, tmp_path / "run", monkeypatch)
    assert outcome.numbers.status != "fail"
    assert not outcome.numbers.n_certain_patients


def test_people_of_a_further_part_who_are_drawn_fail_the_audit(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(images, tmp_path / "images")
    (tmp_path / "images" / "val").mkdir()
    chosen = pictures(np.random.default_rng(13), 8)
    for number, image in enumerate(chosen):
        turned = np.ascontiguousarray(np.rot90(image, number))
        Image.fromarray(turned).save(tmp_path / "images" / "val" / f"p{2000 + number}_0.png")
    outcome = extracted(releasing(chosen), tmp_path / "images", tmp_path / "run", monkeypatch)
    n = outcome.numbers.other_copies["val"]
    assert outcome.numbers.other_parts == {"val": 8}
    assert n > 8
    assert not outcome.numbers.n_certain_patients
    failure = next(reason for reason in outcome.reasons if reason.code == "other-part-drawn")
    assert failure.text == (
        f"{n} images of 120 drawn from the given generator have the very pixels of an image in a further part of the "
        f"images, as it is, mirrored or turned (val: {n})"
    )
    pairs = pd.read_parquet(tmp_path / "run" / "extraction" / "audit" / "tables" / "pairs.parquet")
    drawn = pairs[pairs["part"] == "further part val"]
    assert len(drawn) == n
    assert set(drawn["group"]) <= {f"p{2000 + number}" for number in range(8)}


def test_killed_while_drawing_it_continues_to_the_same_bytes(
    images: Path, members: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = releasing(members, 0.6)
    extracted(generator, images, tmp_path / "whole", monkeypatch)
    monkeypatch.setattr(extraction, "open_released", lambda place, kind, lora=None: generator)
    store, parts, options = opened(images, tmp_path)
    (tmp_path / "killed").mkdir()

    def killed(stage: str, done: int, total: int) -> None:
        """Stop at the second block."""
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(RunFolder(tmp_path / "killed"), store, parts, options, killed)
    folder = tmp_path / "killed" / "extraction"
    drawn = sorted((folder / "images").iterdir())
    assert 0 < len(drawn) < N_DRAWN
    drawn[3].write_bytes(b"torn")
    extract(RunFolder(tmp_path / "killed"), store, parts, options, no_progress)
    for name in [*FILES, *(f"images/synthetic-{number:06d}.png" for number in range(N_DRAWN))]:
        assert (folder / name).read_bytes() == (tmp_path / "whole" / "extraction" / name).read_bytes(), name
    with pytest.raises(InputError, match="holds draws with another images"):
        extract(RunFolder(tmp_path / "killed"), store, parts, replace(options, extract=200), no_progress)
    with pytest.raises(InputError, match="holds draws with another generator"):
        extracted(replace(generator, network=new_perceptron(SIDE * SIDE, 1)), images, tmp_path / "killed", monkeypatch)


def outcome_of(status: str, *, certain: bool = False) -> Extraction:
    """Numbers of an extraction."""
    return Extraction(
        n_drawn_images=300, seed=0, sampling_steps=250, least_noticed_share=0.01, status=status, codes=(),
        certain=certain, n_certain_patients=int(certain), n_listed_patients=2, n_singled_images=0,
        n_confirmed_images=None, n_held_out_patients=9, promise="a copy would be noticed",
        cliques=Cliques(n_cliques=0, n_images=0, n_largest_images=0, n_flagged=0, chance_pairs=None),
        folder="extraction/audit", sha256="",
    )  # fmt: skip


class Judged:
    """An audit with one reason and one remedy."""

    def __init__(self, status: str) -> None:
        code, bearing = ("listed-patients", "fail") if status == "fail" else ("few-plants", "doubt")
        self.reasons = ({"code": code, "bears_on": bearing, "text": "few plants were noticed"},)

    what_would_decide = ("more plants",)


def test_without_a_random_split_only_pixels_fail_the_audit() -> None:
    def codes(extraction_numbers: Extraction, *, random: bool) -> list[str]:
        """Codes of the reasons."""
        judged = Judged(extraction_numbers.status)
        return [reason.code for reason in extraction._reasons(extraction_numbers, judged, random_split=random)]

    assert codes(outcome_of("fail"), random=True) == ["patients-drawn", "rare-draws"]
    assert codes(outcome_of("fail"), random=False) == ["draws-undecided", "rare-draws"]
    assert codes(outcome_of("fail", certain=True), random=False) == ["patients-drawn", "rare-draws"]
    of_validation = replace(outcome_of("fail", certain=True), n_certain_patients=0, other_copies={"val": 2})
    assert codes(of_validation, random=False) == ["other-part-drawn", "rare-draws"]
    assert codes(of_validation, random=True) == ["patients-drawn", "other-part-drawn", "rare-draws"]
    assert codes(outcome_of("undecided"), random=True) == ["draws-undecided", "rare-draws"]
    assert codes(outcome_of("pass"), random=False) == ["no-patient-drawn", "rare-draws"]


def test_an_image_of_the_least_share_is_missed_in_one_of_twenty_extractions() -> None:
    for n in (100, 1000):
        assert (1 - least_noticed_share(n)) ** n == pytest.approx(0.05)


def test_the_cost_counts_the_passes_of_drawing(
    images: Path, members: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extraction, "open_released", lambda place, kind, lora=None: releasing(members))
    store, _, options = opened(images, tmp_path)
    cost = extraction_cost(store, options)
    assert (cost.images_drawn, cost.images_passed) == (N_DRAWN, 250 * N_DRAWN)
    assert extraction_cost(store, replace(options, extract=None)).images_drawn == 0


@pytest.fixture(scope="module")
def run(images: Path, members: np.ndarray, tmp_path_factory: pytest.TempPathFactory, quick: None) -> Path:
    """A whole audit of a generator that draws its training images."""
    root, generator = tmp_path_factory.mktemp("whole"), releasing(members)
    shutil.copytree(images, root / "images")
    (root / "images" / "val").mkdir()
    for number, image in enumerate(pictures(np.random.default_rng(13), 4)):
        Image.fromarray(image).save(root / "images" / "val" / f"p{2000 + number}_0.png")
    save_file(new_perceptron(SIDE * SIDE, 0).state_dict(), root / "net.safetensors")
    with pytest.MonkeyPatch.context() as patch:
        for module in (extraction, target):
            patch.setattr(module, "open_released", lambda place, kind, lora=None: generator)
        result = audit_generator(
            root / "images", out=root / "run", target=root / "net.safetensors", splits="given-random", models=2,
            steps=2, batch_size=8, levels=2, draws=1, processes=1, device="cpu", group_from=r"(p\d+)_",
            extract=N_DRAWN,
        )  # fmt: skip
    assert isinstance(result, Result)
    return root / "run"


def test_the_verdict_the_page_and_the_statement_have_the_extraction(run: Path, tmp_path: Path) -> None:
    verdict = json.loads((run / "verdict.json").read_text())
    assert verdict["status"] == "fail"
    drawn = next(reason for reason in verdict["reasons"] if reason["code"] == "patients-drawn")
    assert drawn["n_drawn"] == N_DRAWN
    assert verdict["target"]["extraction"]["codes"][0] == "same-pixels"
    page = (run / "report.html").read_text()
    assert "it draws copies of patients in its training" in page
    section = page[page.index('id="extraction"') :]
    assert "The split holds 4 images in further parts (val: 4): only their pixels are compared" in section
    for text in ("Can patients be drawn?", "extraction/audit/report.html", "Does the generator repeat itself?"):
        assert text in section, text
    assert "synthetic-0000" in section
    (audit,) = make_statement(run).audits
    figures = {figure.name: figure.value for figure in audit.figures}
    assert figures["drawn"] == N_DRAWN
    assert figures["drawn_identical"] == verdict["target"]["extraction"]["n_certain_patients"]
    assert figures["drawn_identical_further_parts"] == 0
    assert not any("audit synthetic" in sentence for sentence in audit.not_examined)


def test_the_page_is_made_again_with_and_without_pictures(run: Path, tmp_path: Path) -> None:
    assert main(["report", str(run), "--gallery", "--out", str(tmp_path / "again.html")]) == 0
    again, first = (tmp_path / "again.html").read_text(), (run / "report.html").read_text()
    assert again.count("data:image") == first.count("data:image") > 10
    assert again.count("synthetic-0000") == first.count("synthetic-0000") > 10
    assert main(["report", str(run), "--redact", "--out", str(tmp_path / "redacted.html")]) == 0
    redacted = (tmp_path / "redacted.html").read_text()
    assert "Can patients be drawn?" in redacted
    assert "synthetic-0000" not in redacted
    assert "train/p" not in redacted


def test_a_changed_audit_of_the_draws_is_not_stated(run: Path) -> None:
    seal = run / "extraction" / "audit" / "result.sha256"
    whole = seal.read_bytes()
    seal.write_bytes(whole + b"\n")
    try:
        with pytest.raises(InputError, match="is not the audit with which"):
            make_statement(run)
    finally:
        seal.write_bytes(whole)


def test_bad_settings_are_refused_in_one_line(images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_file(new_perceptron(SIDE * SIDE, 0).state_dict(), tmp_path / "net.safetensors")
    to = ("--target", str(tmp_path / "net.safetensors"))
    for arguments, message in (
        (("--extract", "500"), "name it with target"),
        (("--extract", "5", *to), "draw more, as 1000"),
        (("--extract", "500", "--dose", "4", *to), "give one"),
    ):
        assert main(["audit", "generator", str(images), "--out", str(tmp_path / "run"), *arguments]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1, error
    assert not (tmp_path / "run").exists()
