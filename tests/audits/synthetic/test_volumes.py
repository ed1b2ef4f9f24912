"""The audit of a set of volumes: copies are found as they are, turned over and noised; honest sets are not failed."""

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from memorisk.audits.comparison import second_look
from memorisk.audits.comparison.kept_alignments import ALIGNMENTS, KeptAlignments
from memorisk.audits.comparison.sets import VOLUMES_COMPARED, LeftOf, _left_of
from memorisk.audits.release.export import release
from memorisk.audits.release.statement import FilesUnread, write_statement
from memorisk.audits.synthetic import analysis
from memorisk.audits.synthetic.options import synthetic_options
from memorisk.audits.synthetic.reasons import FramesLeft
from memorisk.audits.synthetic.result import SyntheticSummary, matrices
from memorisk.audits.synthetic.run import SyntheticPlan, audit_synthetic
from memorisk.images.alterations.planting import plant_copy
from memorisk.images.alterations.plants import ALL_KINDS, PLANT_KINDS
from memorisk.images.copies.alignment import align
from memorisk.report.numbers import from_json
from memorisk.report.result import Result
from memorisk.runs.errors import InputError
from memorisk.runs.files import read_json
from tests.view.test_reviewing import opened

nib = pytest.importorskip("nibabel")

SIDE, N_TRAIN, N_HELD, N_SYNTHETIC = 16, 70, 40, 20
RNG = np.random.default_rng(0)
KINDS = [kind for kind in ALL_KINDS.values() if kind.of_volumes]


def _volumes(n: int) -> np.ndarray:
    """Volumes of one shape with structures of their own, uint8 [n, S, S, S]."""
    noise = gaussian_filter(RNG.standard_normal((n, SIDE, SIDE, SIDE)), (0, 1.5, 1.5, 1.5), mode="wrap")
    values = noise / noise.std() + 0.5 * gaussian_filter(RNG.standard_normal((SIDE, SIDE, SIDE)), 3)[None] * 20
    return np.clip(128 + 50 * values, 1, 254).astype(np.uint8)


def _write(folder: Path, volumes: np.ndarray) -> str:
    folder.mkdir(parents=True)
    for number, volume in enumerate(volumes):
        image = nib.Nifti1Image(volume, np.diag([-1, -1, 1, 1]))
        image.header["cal_min"], image.header["cal_max"] = 0, 255
        nib.save(image, folder / f"{number:03d}.nii.gz")
    return str(folder)


@pytest.fixture(scope="module")
def volumes() -> np.ndarray:
    return _volumes(N_TRAIN + N_HELD + N_SYNTHETIC)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory, volumes: np.ndarray) -> dict[str, str]:
    root = tmp_path_factory.mktemp("volumes")
    cuts = np.split(volumes, [N_TRAIN, N_TRAIN + N_HELD])
    made = {part: _write(root / part, some) for part, some in zip(("train", "held", "honest"), cuts, strict=True)}
    copied = cuts[2].copy()
    copied[0] = volumes[3]
    copied[1] = volumes[7][..., ::-1]  # turned over
    copied[2] = np.rot90(volumes[9][:, ::-1])
    copied[3] = np.clip(volumes[11] + RNG.normal(0, 10, volumes[11].shape), 0, 255).astype(np.uint8)
    return made | {"copied": _write(root / "copied", copied)}


SETTINGS = {"frames": "volume", "size": SIDE, "one_image_per_patient": True, "device": "cpu", "gallery": False}


def _audit(parts: dict[str, str], synthetic: str, out: Path, **settings: object) -> Result:
    chosen = {"detector": ("default", "details"), "plants": 10} | settings
    result = audit_synthetic(parts["train"], parts[synthetic], held_out=parts["held"], out=out, **(SETTINGS | chosen))
    assert isinstance(result, Result)
    return result


@pytest.fixture(scope="module")
def folder(parts: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "copied"
    _audit(parts, "copied", out, gallery=True)
    return out


@pytest.fixture(scope="module")
def copied(folder: Path) -> Result:
    return Result.load(folder)


def test_copies_are_found(copied: Result) -> None:
    assert copied.status == "fail"
    pairs = copied.tables["pairs"].set_index("image")
    same = pairs[pairs["identical"]]
    assert same["real_image"].to_dict() == {
        "000.nii.gz": "003.nii.gz",
        "001.nii.gz": "007.nii.gz",
        "002.nii.gz": "009.nii.gz",
    }
    assert same["orientation"].tolist() == ["as it is", "turned over", "mirrored, turned by 90 degrees"]
    review = copied.tables["review"].set_index("synthetic_image")
    assert review.loc["003.nii.gz", "training_image"] == "011.nii.gz"  # noised


def test_an_honest_set_is_not_failed(parts: dict[str, str], tmp_path: Path) -> None:
    result = _audit(parts, "honest", tmp_path / "run")
    assert result.status == "undecided"  # of 10 copies of each kind no lower limit reaches 0.8
    assert {str(reason["code"]) for reason in result.reasons} == {"plants-missed"}
    kinds = result.tables["kinds"].set_index("kind")
    assert set(kinds.index[kinds["planted"] == 0]) == {"jpeg", "resized", "recoloured", "shrunken"}
    for kind in ("exact", "flipped", "noised", "pasted"):
        assert kinds.loc[kind, "found"] >= 9, kind


def test_the_plan_and_the_page_name_what_is_compared(copied: Result, parts: dict[str, str], tmp_path: Path) -> None:
    plan = audit_synthetic(
        parts["train"], parts["honest"], held_out=parts["held"], out=tmp_path / "run", dry_run=True, **SETTINGS
    )
    assert isinstance(plan, SyntheticPlan)
    assert plan.pixels.startswith("16 x 16 x 16 grey voxels of 8 bits")
    assert VOLUMES_COMPARED in plan.notes


def test_the_statement_names_what_of_volumes_was_compared(tmp_path: Path, folder: Path) -> None:
    (audit,) = write_statement(folder, out=tmp_path / "stated").statement.audits
    assert audit.settings["frames"] == "volume"
    compared = "were compared only for equality and in pairs of the second look."
    assert f"Voxels outside three middle slices of each volume {compared}" in audit.not_examined
    assert "jpeg" in audit.kinds_not_tried
    assert "--images" not in audit.subject.why
    assert "writes no volumes" in audit.subject.why


def test_volumes_are_not_released(copied: Result, parts: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="PNG, and no volumes"):
        release(parts["honest"], tmp_path / "out", frames="volume", size=SIDE)


def test_kinds_without_a_definition_for_volumes_are_refused() -> None:
    assert synthetic_options({"frames": "volume"}).kinds == tuple(name for name in PLANT_KINDS if name != "jpeg")
    with pytest.raises(InputError, match="jpeg of a volume is not defined; the kinds for volumes are exact, flipped"):
        synthetic_options({"frames": "volume", "plant_kinds": ("exact", "jpeg")})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_kind_of_volumes_changes_all_three_dimensions_or_none(kind, volumes: np.ndarray) -> None:
    image, base = volumes[0], volumes[1]
    copy = plant_copy(kind, image, base, np.random.default_rng(5))
    assert copy is not None
    assert copy.pixels.shape == image.shape
    assert copy.pixels.dtype == image.dtype
    again = plant_copy(kind, image, base, np.random.default_rng(5))
    assert again is not None
    np.testing.assert_array_equal(copy.pixels, again.pixels)


def test_volumes_are_mirrored_cropped_shifted_and_pasted_along_each_axis(volumes: np.ndarray) -> None:
    image, base = volumes[0], volumes[1]
    rng = np.random.default_rng(0)
    flips = [plant_copy(ALL_KINDS["flipped"], image, base, rng) for _ in range(20)]
    axes = [next(a for a in range(3) if np.array_equal(np.flip(image, a), flip.pixels)) for flip in flips if flip]
    assert set(axes) == {0, 1, 2}
    pasted = plant_copy(ALL_KINDS["pasted"], image, base, rng)
    assert pasted is not None
    where = np.argwhere(pasted.pixels != base)
    sides = where.max(axis=0) - where.min(axis=0) + 1
    assert (sides >= 8).all()
    assert (sides <= 11).all()  # 50 to 70 % of 16
    ramp = np.add.outer(np.add.outer(np.arange(16) * 4, np.arange(16)), np.arange(16) * 8).astype(np.uint8)
    shifted = plant_copy(ALL_KINDS["shifted"], ramp, base, rng)
    assert shifted is not None
    steps = [int(part.split()[0]) for part in shifted.parameter.split(", ")]
    inner = np.arange(4, 12)
    np.testing.assert_array_equal(
        shifted.pixels[np.ix_(inner, inner, inner)], ramp[np.ix_(*(inner - step for step in steps))]
    )
    cropped = plant_copy(ALL_KINDS["cropped"], ramp, base, rng)
    assert cropped is not None
    share = int(cropped.parameter.split("%")[0]) / 100
    for axis, slope in enumerate((4, 1, 8)):
        change = np.diff(cropped.pixels.astype(float), axis=axis)[2:-2, 2:-2, 2:-2].mean()
        assert change == pytest.approx(slope * share, rel=0.1)


def test_what_was_not_read_of_volumes_is_read_as_volumes() -> None:
    assert _left_of(["a/1.nii.gz", "a/2.nii"], "auto") == "nifti"
    assert _left_of(["a/1.nii.gz", "a/2.tif"], "auto") == "files"
    assert _left_of([], "auto") == "files"
    assert _left_of(["a/1.nii.gz"], "volume") == "series"
    remedies = {of: FramesLeft(n_synthetic=1, n_training=0, of=of).remedy for of in get_args(LeftOf)}
    assert remedies["nifti"].startswith("--frames volume")
    assert remedies["files"].startswith("--frames all")
    assert "--frames" not in remedies["series"]


def test_unread_volumes_are_not_advised_to_be_released() -> None:
    assert "memorisk release" in FilesUnread(n_files=1).remedy
    assert "memorisk release" not in FilesUnread(n_files=1, of_volumes=True).remedy


@pytest.fixture(scope="module")
def moved(parts: dict[str, str], volumes: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a set with two copies that the middle slices do not show in place, and its second look."""
    root = tmp_path_factory.mktemp("moved")
    made = volumes[-N_SYNTHETIC:].copy()
    made[0] = volumes[3][..., np.clip(np.arange(SIDE) - 2, 0, SIDE - 1)]
    made[1] = volumes[7][np.clip(np.arange(SIDE) + 1, 0, SIDE - 1), :, ::-1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(second_look, "MOST_IMAGES", 40)
        patch.setattr(analysis, "look_again", second_look.look_again)
        _audit(parts | {"moved": _write(root / "set", made)}, "moved", root / "run", plants=3, gallery=True)
    return root / "run"


def test_the_second_look_lays_whole_volumes_on_one_another(moved: Path) -> None:
    result = Result.load(moved)
    table = result.tables["alignments"].set_index("image")
    assert len(table) == N_SYNTHETIC
    confirmed = table[table["confirmed"]]
    assert confirmed["training_image"].to_dict() == {"000.nii.gz": "003.nii.gz", "001.nii.gz": "007.nii.gz"}
    assert confirmed["alignment"].str.split(", most alike").str[0].to_dict() == {
        "000.nii.gz": "moved",
        "001.nii.gz": "mirrored feet to head, moved",
    }
    shift, mirrored = matrices(table.loc[["000.nii.gz", "001.nii.gz"]])
    np.testing.assert_allclose(shift, np.c_[np.eye(3), [0, 0, -2]], atol=0.05)
    np.testing.assert_allclose(mirrored, np.c_[np.diag([1, 1, -1]), [1, 0, SIDE - 1]], atol=0.05)  # NIfTI: x first
    review = result.tables["review"].set_index("synthetic_image")
    assert "confirmed by alignment" in review.loc["001.nii.gz", "found_by"]
    assert "mirrored feet to head" in review.loc["001.nii.gz", "alignment"]
    kinds = result.tables["kinds"].set_index("kind")
    assert kinds.loc[["exact", "flipped"], "by_second_look"].tolist() == [3, 3]
    numbers = from_json(SyntheticSummary, result.summary).numbers
    assert numbers.aligned is not None
    assert numbers.aligned.n_control_beyond == 0
    assert not (moved / ALIGNMENTS).exists()
    page = (moved / "report.html").read_text()
    assert "mirrored feet to head, moved" in page
    assert "the training image laid on the synthetic one" in page


def test_a_volume_is_shown_as_it_was_laid(moved: Path, volumes: np.ndarray) -> None:
    run = opened(moved)
    names = [run.pairs.images(place) for place in range(len(run.pairs))]
    generated, laid = run.both(names.index(("001.nii.gz", "007.nii.gz")))
    assert generated.shape == (SIDE, SIDE, 1)
    apart = np.abs(generated.astype(int) - volumes[7][..., SIDE // 2].T[..., None]).mean()
    assert np.abs(generated.astype(int) - laid).mean() < 0.2 * apart


def test_alignments_of_volumes_are_kept_to_the_last_bit(tmp_path: Path, volumes: np.ndarray) -> None:
    laid = align(volumes[0][:, ::-1], volumes[0])
    assert laid is not None
    kept = KeptAlignments(tmp_path / ALIGNMENTS, "content")
    kept(["one"], lambda: [(4, laid)])
    kept.save()
    kept.known = read_json(tmp_path / ALIGNMENTS)
    ((row, again),) = kept(["one"], list)
    assert row == 4
    np.testing.assert_array_equal(again.matrix, laid.matrix)
    names = ("overlap", "strengths", "agreeing", "copy_shape", "source_shape", "words")
    assert [getattr(again, name) for name in names] == [getattr(laid, name) for name in names]
