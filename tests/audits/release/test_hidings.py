"""Images hidden in files that an audit decodes: each is refused by name; a release shows what was compared alone."""

import base64
import io
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageCms
from PIL.PngImagePlugin import PngInfo

import memorisk
from memorisk.audits.compared_images import ComparedImages
from memorisk.audits.release.export import release
from memorisk.audits.release.released_images import read_released
from memorisk.images.clean_set import CLEAN_MANIFEST, clean_names, manifest_bytes
from memorisk.images.options import ImageOptions
from memorisk.images.sources.registry import load_manifest
from memorisk.images.store import build_store
from memorisk.runs.errors import InputError

SIDE, N = 24, 3
SECRET = np.random.default_rng(7).integers(0, 256, (SIDE, SIDE), dtype=np.uint8)


def seen(row: int, side: int = SIDE, channels: int = 1) -> np.ndarray:
    """The picture that an audit sees."""
    shape = (side, side) if channels == 1 else (side, side, channels)
    return np.random.default_rng(row).integers(0, 256, shape, dtype=np.uint8)


def at_the_sides(file: Path, row: int) -> None:
    """Put another image left and right of the middle square."""
    half = SIDE // 2
    Image.fromarray(np.hstack([SECRET[:, :half], seen(row), SECRET[:, half:]])).save(file)


def in_the_chroma(file: Path, row: int) -> None:
    """Put another image into colours of which the luma is a picture."""
    luma, blue = seen(row).astype(int) // 2 + 64, SECRET.astype(int)
    rest = np.clip((luma - 0.114 * blue) / 0.886, 0, 255)
    Image.fromarray(np.stack([rest, rest, blue], axis=-1).astype(np.uint8)).save(file)


def in_fine_patterns(file: Path, row: int) -> None:
    """Put another image into the differences of neighbouring pixels, whose mean is a picture."""
    coarse = np.kron(seen(row, SIDE // 2), np.ones((2, 2), np.uint8)).astype(int)
    sign = np.where(np.indices((SIDE, SIDE)).sum(0) % 2, 1, -1)
    Image.fromarray(np.clip(coarse + sign * (SECRET.astype(int) // 8), 0, 255).astype(np.uint8)).save(file)


def in_cmyk(file: Path, row: int) -> None:
    """Let black make the picture, and cyan, magenta and yellow another one."""
    Image.fromarray(np.dstack([SECRET, SECRET, SECRET, seen(row)]), "CMYK").save(file.with_suffix(".jpg"), quality=95)


def at_the_edge(file: Path, row: int) -> None:
    """Fill the blocks of a JPEG beyond the picture, which its header then cuts off."""
    written = io.BytesIO()
    Image.fromarray(np.hstack([seen(row), SECRET[:, :8]])).save(written, format="JPEG")
    data = bytearray(written.getvalue())
    frame = data.index(b"\xff\xc0")
    data[frame + 7 : frame + 9] = (SIDE + 1).to_bytes(2, "big")
    file.with_suffix(".jpg").write_bytes(data)


def under_alpha(file: Path, row: int) -> None:
    """Put another image where nothing shows, under transparency."""
    Image.fromarray(np.dstack([SECRET, SECRET, SECRET, np.zeros_like(SECRET)])).save(file)


def in_an_array(file: Path, row: int) -> None:
    """Put another image under the alpha of an array."""
    opaque = np.full_like(SECRET, 255)
    opaque[: len(opaque) // 2] = 0
    hidden = np.where(opaque, seen(row), SECRET)
    alpha = np.dstack([hidden, hidden, hidden, opaque])
    np.save(file.with_suffix(".npy"), np.stack([alpha, alpha ^ 1]))


def in_low_bits(file: Path, row: int) -> None:
    """Put another image into the lower 8 bits of 16."""
    Image.fromarray((seen(row).astype(np.uint16) << 8) | SECRET).save(file)


def in_a_palette(file: Path, row: int) -> None:
    """Put another image into colours that no pixel uses."""
    picture = Image.fromarray(seen(row) % 8, "P")
    colours = np.repeat(np.arange(8, dtype=np.uint8) * 30, 3).tobytes()
    picture.putpalette(colours + SECRET.tobytes()[: 768 - 24])
    picture.save(file)


def with_text(file: Path, row: int) -> None:
    """Put another image into text."""
    text = PngInfo()
    text.add_text("Comment", SECRET.tobytes().hex())
    Image.fromarray(seen(row)).save(file, pnginfo=text)


def with_exif(file: Path, row: int) -> None:
    """Put another image into EXIF."""
    exif = Image.Exif()
    exif[0x010E] = SECRET.tobytes().hex()
    Image.fromarray(seen(row)).save(file, exif=exif)


def with_profile(file: Path, row: int) -> None:
    """Put a colour profile beside the pixels."""
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    Image.fromarray(seen(row)).save(file, icc_profile=profile + SECRET.tobytes())


def with_frames(file: Path, row: int) -> None:
    """Put another image behind the first one of an animation."""
    Image.fromarray(seen(row)).save(file, save_all=True, append_images=[Image.fromarray(SECRET)])


def with_pages(file: Path, row: int) -> None:
    """Put another image on the second page of a TIFF."""
    pages = {"save_all": True, "append_images": [Image.fromarray(SECRET)]}
    Image.fromarray(seen(row)).save(file.with_suffix(".tif"), **pages)


def with_a_comment(file: Path, row: int) -> None:
    """Put another image into the comment of a GIF."""
    Image.fromarray(seen(row)).save(file.with_suffix(".gif"), comment=SECRET.tobytes().hex()[:255])


def with_a_tail(file: Path, row: int) -> None:
    """Put another image behind the end."""
    Image.fromarray(seen(row)).save(file)
    with file.open("ab") as opened:
        Image.fromarray(SECRET).save(opened, format="PNG")


def as_an_archive(file: Path, row: int) -> None:
    """Let a file be a picture and an archive."""
    Image.fromarray(seen(row)).save(file)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("secret", SECRET.tobytes())


def in_the_name(file: Path, row: int) -> None:
    """Put a part of another image into the name of a file."""
    Image.fromarray(seen(row)).save(file.with_name(f"{file.stem}-{SECRET.tobytes()[:60].hex()}.png"))


def in_the_compression(file: Path, row: int) -> None:
    """Write pixels as other bytes than their only ones."""
    Image.fromarray(seen(row)).save(file, compress_level=1 + row)


@dataclass(frozen=True)
class Hiding:
    """A way to hide an image, and the settings of an audit that does not see it."""

    write: Callable[[Path, int], None]
    settings: Mapping[str, Any] = field(default_factory=dict)


HIDINGS = {
    "sides": Hiding(at_the_sides, {"size": SIDE, "resize": "crop"}),
    "chroma": Hiding(in_the_chroma, {"channels": 1}),
    "fine patterns": Hiding(in_fine_patterns, {"size": SIDE // 2}),
    "CMYK": Hiding(in_cmyk),
    "edge of a JPEG": Hiding(at_the_edge),
    "alpha": Hiding(under_alpha),
    "alpha of an array": Hiding(in_an_array),
    "lower bits": Hiding(in_low_bits, {"window": "full"}),
    "palette": Hiding(in_a_palette),
    "text": Hiding(with_text),
    "EXIF": Hiding(with_exif),
    "profile": Hiding(with_profile),
    "frames": Hiding(with_frames),
    "pages": Hiding(with_pages),
    "comment": Hiding(with_a_comment),
    "tail": Hiding(with_a_tail),
    "archive": Hiding(as_an_archive),
    "name": Hiding(in_the_name),
    "compression": Hiding(in_the_compression),
}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))


def write_set(folder: Path, write: Callable[[Path, int], None], name: str = "image{}.png") -> Path:
    """Write a set of a few images that hide one each."""
    folder.mkdir()
    for row in range(1, N + 1):
        write(folder / name.format(row), row)
    return folder


def source_of(folder: Path) -> Path:
    """The folder, or the file of arrays in it."""
    arrays = sorted(folder.glob("*.npy"))
    return arrays[0] if arrays else folder


def compared_images(folder: Path, settings: Mapping[str, Any]) -> tuple[ComparedImages, np.ndarray]:
    """What an audit with these settings compares."""
    options = ImageOptions(**settings)
    store = build_store(load_manifest(source_of(folder), options), options, processes=1)
    return ComparedImages.of(store, store), np.asarray(store.images)


@pytest.mark.parametrize("name", HIDINGS)
def test_a_hiding_is_refused_by_name_and_a_release_is_without_it(tmp_path: Path, name: str) -> None:
    hiding = HIDINGS[name]
    folder = write_set(tmp_path / "set", hiding.write)
    compared, pixels = compared_images(folder, hiding.settings)
    with pytest.raises(InputError) as refused:
        read_released(folder, compared)
    first = min(file.name for file in folder.iterdir())
    assert str(refused.value).startswith(f"{first[:40]}")
    assert compared.form is not None
    assert compared.form.words in str(refused.value)
    release(source_of(folder), tmp_path / "out", **hiding.settings)
    assert read_released(tmp_path / "out", compared).pixels == compared.form
    for file, image in zip(sorted((tmp_path / "out").glob("*.png")), pixels, strict=True):
        shown = np.asarray(Image.open(file))
        np.testing.assert_array_equal(np.broadcast_to(shown.reshape(*shown.shape[:2], -1), image.shape), image)
        assert file.stat().st_size < shown.nbytes + shown.shape[0] + 100
    again, _ = compared_images(tmp_path / "out", {})
    assert again.pixels == compared.pixels


@pytest.mark.parametrize("name", ["text", "EXIF", "profile", "frames", "tail", "archive", "alpha", "palette"])
def test_a_hiding_under_the_names_of_a_release_is_refused_by_name(tmp_path: Path, name: str) -> None:
    folder = write_set(tmp_path / "set", HIDINGS[name].write, "{:06d}.png")
    compared, _ = compared_images(folder, {})
    release(folder, tmp_path / "out")
    (tmp_path / "out" / "000002.png").write_bytes((folder / "000002.png").read_bytes())
    with pytest.raises(InputError, match=r"^000002\.png (holds|has other bytes)"):
        read_released(tmp_path / "out", compared)


@pytest.mark.parametrize(
    ("settings", "larger", "said"),
    [
        ({"size": SIDE // 2}, {}, "holds 24 x 24 grey pixels of 8 bits, and the audit compared 12 x 12 grey pixels"),
        ({"channels": 1}, {}, "holds 24 x 24 colour pixels of 8 bits, and the audit compared 24 x 24 grey pixels"),
        ({}, {"depth": 16}, "pixels of 16 bits, and the audit compared 24 x 24"),
    ],
)
def test_an_audit_of_less_does_not_pass_for_more(
    tmp_path: Path, settings: dict[str, Any], larger: dict[str, Any], said: str
) -> None:
    write = in_the_chroma if "channels" in settings else in_fine_patterns
    folder = write_set(tmp_path / "set", write)
    compared, _ = compared_images(folder, settings)
    release(folder, tmp_path / "out", **larger)
    with pytest.raises(InputError, match=said):
        read_released(tmp_path / "out", compared)


def test_colours_of_sixteen_bits_are_released_as_they_were_compared(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 65_536, (N, SIDE, SIDE, 3), dtype=np.uint16)
    (tmp_path / "set").mkdir()
    np.save(tmp_path / "set" / "images.npy", images)
    settings = {"depth": 16, "window": "full"}
    compared, _ = compared_images(tmp_path / "set", settings)
    release(source_of(tmp_path / "set"), tmp_path / "out", **settings)
    assert read_released(tmp_path / "out", compared).files == N + 1


def test_a_label_that_no_training_image_has_stays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole training images went out as text in the labels of a table."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    images, rng = np.random.default_rng(0).integers(0, 256, (3, 12, 8, 8), dtype=np.uint8), np.random.default_rng(1)
    labels = rng.choice(["a", "b"], 12).astype(object)
    made = labels.copy()
    made[3] = base64.b64encode(images[0, 0].tobytes()).decode()
    settings = {"detector": "pixels", "plant_kinds": ("exact",), "one_image_per_patient": True}
    made_set, others = _table(tmp_path / "set", images[1], made), (images[2], labels)
    memorisk.audit_synthetic((images[0], labels), made_set, held_out=others, out="run", **settings)
    written = release("run", "out")
    assert written.labels_left == 1
    compared = ComparedImages.read(Path("run"))
    assert list(compared.labels) == [*made[:3], "", *made[4:]]
    assert read_released(Path("out"), compared).files == 13
    table = Path("out", CLEAN_MANIFEST)
    assert made[3] not in table.read_text()
    table.write_bytes(manifest_bytes(clean_names(12), made.tolist()))
    with pytest.raises(InputError, match=r"000004\.png has a label that was not audited, or that no training image"):
        read_released(Path("out"), compared)


def _table(folder: Path, images: np.ndarray, labels: np.ndarray) -> Path:
    """Images in files, with their labels in a table."""
    folder.mkdir()
    names = [f"{row}.png" for row in range(len(images))]
    for name, image in zip(names, images, strict=True):
        Image.fromarray(image).save(folder / name)
    pd.DataFrame({"file": names, "label": labels}).to_csv(folder / "set.csv", index=False)
    return folder / "set.csv"
