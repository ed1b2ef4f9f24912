"""CT-RATE slices chosen by masks: which, how they look, what is refused, and that a mask is read once."""

import json
from pathlib import Path

import numpy as np
import pytest

from memorisk.images.options import ImageOptions
from memorisk.images.published import ct_rate as official_ct_rate
from memorisk.images.published.ct_rate import axial_place, choose_slices, read_marked
from memorisk.images.readers.registry import read_image
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store, manifest_sources
from memorisk.runs.errors import InputError
from tests.images.official_trees import notes_of, rows_of
from tests.images.official_trees_pairs import SCAN, ct_rate, mask, scan

nib = pytest.importorskip("nibabel")


def test_slices_by_their_definition() -> None:
    """The largest area of each instance, and as many slices without a mark, evenly spread."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(3, 30))
        owners = rng.integers(0, 3, int(rng.integers(1, 6)))
        areas = rng.integers(0, 5, (len(owners), n)) * (rng.random((len(owners), n)) < 0.3)
        areas[np.arange(len(owners)), rng.integers(0, n, len(owners))] += 3
        marked = choose_slices(areas, owners)
        best = {min(s for s in range(n) if areas[i, s] == max(areas[i])) for i in range(len(owners))}
        abnormal = marked.slices[: len(best)]
        assert abnormal == sorted(best)
        for at, findings in zip(marked.slices, marked.findings, strict=True):
            assert findings == sorted({owners[i] for i in range(len(owners)) if areas[i, at] > 0})
        free = [s for s in range(n) if not areas[:, s].any()]
        others = marked.slices[len(best) :]
        assert len(others) == min(len(best), len(free))
        assert len(set(marked.slices)) == len(marked.slices)
        assert set(others) <= set(free)
        if len(others) == len(free):
            assert others == free


@pytest.mark.parametrize("codes", ["LPS", "RAS", "PIR", "SLA", "IRP"])
def test_the_stored_orientation_does_not_matter(tmp_path: Path, codes: str) -> None:
    """A turned volume and its turned mask choose the same slices, and these show the same pixels."""
    straight = nib.Nifti1Image(scan(3), np.diag([1.0, 1.0, 2.0, 1.0]))
    turn = nib.orientations.ornt_transform(
        nib.orientations.io_orientation(straight.affine), nib.orientations.axcodes2ornt(codes)
    )
    nib.save(straight.as_reoriented(turn), tmp_path / "turned.nii.gz")
    marks = np.stack([nib.orientations.apply_orientation(m, turn) for m in mask()])
    nib.save(nib.Nifti1Image(marks, np.eye(4)), tmp_path / "mask.nii.gz")
    marked = read_marked(tmp_path / "mask.nii.gz", axial_place(tmp_path / "turned.nii.gz"))
    assert (marked.slices, marked.instances) == ([3, 4, 6, 0, 5, 8], 3)
    assert marked.findings == [[0], [0], [1], [], [], []]


def test_ct_rate(tmp_path: Path) -> None:
    manifest = load_manifest(f"ct-rate:{ct_rate(tmp_path / 'set')}")
    nodule, effusion = "Pulmonary nodules or masses", "Pleural effusion or thickening"
    file = "CT-RATE/dataset/train_fixed/train_1/train_1_a/train_1_a_1.nii.gz"
    assert rows_of(manifest, "image", "path", "label", "group", "split", "frame")[:6] == [
        ("train_1_a_1#3", file, nodule, "train_1", "train", 3),
        ("train_1_a_1#4", file, nodule, "train_1", "train", 4),
        ("train_1_a_1#6", file, effusion, "train_1", "train", 6),
        ("train_1_a_1#0", file, "none", "train_1", "train", 0),
        ("train_1_a_1#5", file, "none", "train_1", "train", 5),
        ("train_1_a_1#8", file, "none", "train_1", "train", 8),
    ]
    assert list(dict.fromkeys(manifest.groups)) == ["train_1", "valid_7"]
    assert manifest.skipped.to_dict("records") == [
        {
            "path": "train_9_a_1.nii.gz",
            "reason": "no mask of it in segmentations (those of the test part are not published)",
        }
    ]
    assert "18 slices are here; paper 004 says 27,683." in manifest.notes


def test_pixels_are_hounsfield_units_seen_from_the_feet(tmp_path: Path) -> None:
    """Stored to the left and to the back (LPS): the first row is the front, the first column the patient's right."""
    manifest = load_manifest(f"ct-rate:{ct_rate(tmp_path / 'set')}")
    source = manifest_sources(manifest)[1]
    seen = read_image(source.file, member=source.member, frame=source.frame)[..., 0]
    values = scan(1, seed=0)[:, :, 4].T.astype(float)
    np.testing.assert_array_equal(seen, np.rint((np.clip(values, -1000, 1000) + 1000) / 2000 * 255))
    wide = read_image(source.file, member=source.member, frame=source.frame, window="full")[..., 0]
    assert (wide != seen).any()
    store = build_store(manifest, ImageOptions(store=tmp_path / "cache"))
    assert store.images.shape == (18, SCAN[1], SCAN[0], 1)
    np.testing.assert_array_equal(store.images[1, ..., 0], seen)


def test_a_mask_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, options = f"ct-rate:{ct_rate(tmp_path / 'set')}", ImageOptions(store=tmp_path / "cache")
    first = load_manifest(source, options)
    kept = sorted((tmp_path / "cache/mask_slices").iterdir())
    assert len(kept) == 1, "equal masks of equally stored volumes share what they choose"
    read = []
    monkeypatch.setattr(official_ct_rate, "read_marked", lambda *a: read.append(a) or read_marked(*a))
    assert load_manifest(source, options).table.equals(first.table)
    assert not read
    kept[0].write_text(kept[0].read_text()[:20])
    assert load_manifest(source, options).table.equals(first.table)
    assert len(read) == 1, "a book that a kill cut short is made again, by the first that needs it"


def test_a_patient_of_two_splits_counts_as_train(tmp_path: Path) -> None:
    table = ct_rate(tmp_path / "set") / "ReXGroundingCT/dataset.json"
    content = json.loads(table.read_text())
    content["val"].append(content["train"].pop(0))
    table.write_text(json.dumps(content))
    manifest = load_manifest(f"ct-rate:{tmp_path / 'set'}")
    assert dict(rows_of(manifest, "group", "split")) == {"train_1": "train", "valid_7": "val"}
    assert "1 patients are in several parts of ReXGroundingCT (train_1); they count as train" in notes_of(manifest)


def test_ct_rate_that_cannot_be_trusted(tmp_path: Path) -> None:
    root = ct_rate(tmp_path / "set")
    table = root / "ReXGroundingCT/dataset.json"
    whole = table.read_text()
    for changed, said in (
        (whole.replace('"2d"', '"3x"'), r"unknown category in dataset\.json: '3x'"),
        (whole.replace("train_1_a_1", "patient_1"), r"1 volumes have no patient in their name \(patient_1\.nii\.gz\)"),
        (whole.replace('"categories"', '"codes"'), "is not ReXGroundingCT's table of train, val and test"),
        ("[]", "is not ReXGroundingCT's table"),
        (whole.replace('"1": "2e"', '"5": "2e"'), "has a finding 1 that dataset.json has not"),
    ):
        assert changed != whole
        table.write_text(changed)
        with pytest.raises(InputError, match=said):
            load_manifest(f"ct-rate:{root}")
    table.write_text(whole)
    with pytest.raises(InputError, match="the masks choose axial slices"):
        load_manifest(f"ct-rate:{root}", ImageOptions(slice_plane="coronal"))
    odd = root / "ReXGroundingCT/segmentations/train_1_b_1.nii.gz"
    for marks, said in (
        (mask()[:, :4], r"a mask of shape 2 x 4 x 5 x 9 does not fit the volume's 5 x 5 x 9"),
        (mask() * 0.5, "holds other values than the whole numbers of instances"),
    ):
        nib.save(nib.Nifti1Image(marks.astype(np.float32), np.eye(4)), odd)
        with pytest.raises(InputError, match=f"1 of 3 .* cannot be read, the first train_1_b_1.nii.gz: {said}"):
            load_manifest(f"ct-rate:{root}")
        assert load_manifest(f"ct-rate:{root}", ImageOptions(skip_unreadable=True)).n == 12
    odd.write_bytes(b"\x1f\x8b broken")
    with pytest.raises(InputError, match="1 of 3 volumes or masks cannot be read"):
        load_manifest(f"ct-rate:{root}")
    nib.save(nib.Nifti1Image(mask(), np.eye(4)), odd)
    release = root / "CT-RATE/dataset"
    (release / "train_fixed/train_1/train_1_b/train_1_b_1.nii.gz").unlink()
    with pytest.raises(InputError, match=r"1 of 3 volumes with a mask have no file .*train_1_b_1.*skip_missing$"):
        load_manifest(f"ct-rate:{root}")
    assert load_manifest(f"ct-rate:{root}", ImageOptions(skip_missing=True)).n == 12
    (release / "train_fixed").rename(release / "train")
    with pytest.raises(InputError, match=r"1 volumes are of the first release .*; get train_fixed and valid_fixed"):
        load_manifest(f"ct-rate:{root}", ImageOptions(skip_missing=True))
