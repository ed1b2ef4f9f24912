"""A release is bytes: ways to change an audited set, each refused by name, and ways that change nothing about it."""

import json
import os
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from memorisk.audits.release.export import release
from memorisk.audits.release.gate import gate
from memorisk.audits.release.statement import make_statement, write_statement
from memorisk.audits.synthetic.run import audit_synthetic
from memorisk.images.clean_set import clean_names, manifest_bytes
from memorisk.images.plain_png import encode_png
from memorisk.runs.checksums import checksum, file_sha256, list_folder
from memorisk.runs.errors import InputError
from tests.audits.release.conftest import OF, PASSES, TRIED
from tests.thorough import thorough

FIRST = "000001.png"


def chunk(name: bytes, body: bytes) -> bytes:
    """A PNG chunk with its checksum."""
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def with_chunk(name: bytes, body: bytes) -> Callable[[Path], None]:
    """Put a chunk before the last one of a PNG file."""

    def change(folder: Path) -> None:
        file = folder / FIRST
        data = file.read_bytes()
        file.write_bytes(data[:-12] + chunk(name, body) + data[-12:])

    return change


def appended(data: bytes) -> Callable[[Path], None]:
    """Put bytes behind the end of a PNG file."""

    def change(folder: Path) -> None:
        with (folder / FIRST).open("ab") as file:
            file.write(data)

    return change


def added(name: str, data: bytes = b"x") -> Callable[[Path], None]:
    """Put a file beside the images."""

    def change(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)

    return change


def other_pixel(folder: Path) -> None:
    """Change one grey value by one."""
    pixels = np.asarray(Image.open(folder / FIRST)).copy()
    pixels[0, 0] ^= 1
    Image.fromarray(pixels).save(folder / FIRST)


def other_compression(folder: Path) -> None:
    """Write the same pixels as other bytes."""
    Image.open(folder / FIRST).save(folder / FIRST, compress_level=0)


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "hidden image": (added(".real.png"), ".real.png"),
    "archive folder": (added("__MACOSX/train0000_0.png"), "__MACOSX/train0000_0.png"),
    "thumbnails": (added("Thumbs.db"), "Thumbs.db"),
    "table": (added("patients.csv"), "patients.csv"),
    "zip": (added("more.zip"), "more.zip"),
    "heic": (added("photo.heic"), "photo.heic"),
    "film": (added("film.mp4"), "film.mp4"),
    "labels": (added("metadata.csv", b"file_name\n"), "metadata.csv"),
    "another image": (lambda f: shutil.copy(f / FIRST, f / "000999.png"), "000999.png"),
    "missing": (lambda f: (f / "000150.png").unlink(), "000150.png"),
    "renamed": (lambda f: (f / FIRST).rename(f / "DOE.png"), "DOE.png"),
    "moved": (lambda f: ((f / "a").mkdir(), (f / FIRST).rename(f / "a" / FIRST)), f"a/{FIRST}"),
    "swapped": (lambda f: shutil.copy(f / "000002.png", f / FIRST), FIRST),
    "emptied": (lambda f: (f / FIRST).write_bytes(b""), FIRST),
    "behind the end": (appended(b"another image"), FIRST),
    "text": (with_chunk(b"tEXt", b"PatientName\0DOE"), FIRST),
    "EXIF": (with_chunk(b"eXIf", b"II*\0"), FIRST),
    "second frame": (with_chunk(b"fdAT", b"\0\0\0\1x"), FIRST),
    "pixel": (other_pixel, FIRST),
    "compression": (other_compression, FIRST),
}


@pytest.fixture(scope="module")
def stated(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The statement of a set that passes."""
    out = tmp_path_factory.mktemp("stated")
    return write_statement(made / "runs" / "clean", images=[made / "clean"], out=out / "s").folder


@pytest.mark.parametrize("name", CHANGES)
def test_a_set_that_was_changed_is_refused_by_name(made: Path, stated: Path, tmp_path: Path, name: str) -> None:
    change, named = CHANGES[name]
    folder = tmp_path / "clean"
    shutil.copytree(made / "clean", folder)
    change(folder)
    found = gate(stated, images=[folder])
    assert not found.passed
    assert named in found.line
    with pytest.raises(InputError, match=named.replace(".", r"\.")):
        make_statement(made / "runs" / "clean", images=[folder])


def test_a_file_added_where_the_audit_read_is_named_there(made: Path, tmp_path: Path, monkeypatch) -> None:
    for name in ("train", "held", "clean"):
        shutil.copytree(made / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)  # where the run's own path leads to the folder that is offered
    added("Thumbs.db")(tmp_path / "clean")
    for images in (["clean"], [tmp_path / "clean"]):
        with pytest.raises(InputError, match=r"Thumbs\.db is not among the files of a release"):
            make_statement(made / "runs" / "clean", images=images)
    why = make_statement(made / "runs" / "clean").audits[0].subject.why
    assert "is not what memorisk release writes of it" in why
    assert "Thumbs.db" not in why


def test_a_run_that_hides_names_is_held_to_pixels_and_labels(runs: Path, tmp_path: Path) -> None:
    key, out = tmp_path / "key", tmp_path / "out"
    key.touch(mode=0o600)
    key.write_bytes(b"0123456789abcdef")
    of_set = {**PASSES, **OF, "pseudonymise": True, "pseudonym_key": key}
    audit_synthetic("train", "drawn", held_out="held", out=tmp_path / "run", **of_set)
    release(tmp_path / "run", out)  # this user knows the paths that the run hides
    assert make_statement(tmp_path / "run", images=[out]).released
    with pytest.raises(InputError, match=r"drawn0000_0\.png and 149 more files are not among the files of a release"):
        make_statement(tmp_path / "run", images=["drawn"])
    names = clean_names(150)
    (out / "metadata.csv").write_bytes(manifest_bytes(names, ["DOE"] * len(names)))
    with pytest.raises(InputError, match="has a label that was not audited"):
        make_statement(tmp_path / "run", images=[out])


def touched(folder: Path) -> None:
    """Set other modification times."""
    for file in folder.iterdir():
        os.utime(file, (0, 0))


SAME: dict[str, Callable[[Path], object]] = {
    "copied": lambda folder: None,
    "other times": touched,
    "other permissions": lambda folder: [file.chmod(0o600) for file in folder.iterdir()],
    "rewritten": lambda folder: [file.write_bytes(file.read_bytes()) for file in folder.iterdir()],
}


@pytest.mark.parametrize(
    "place", ["clean", thorough("other name"), thorough("a/b/c"), thorough("\u5f20"), thorough(".hidden")]
)
@pytest.mark.parametrize("name", SAME)
def test_what_changes_no_byte_is_accepted(made: Path, stated: Path, tmp_path: Path, name: str, place: str) -> None:
    shutil.copytree(made / "clean", tmp_path / place)
    SAME[name](tmp_path / place)
    assert gate(stated, images=[tmp_path / place], kinds=TRIED).passed
    assert make_statement(made / "runs" / "clean", images=[tmp_path / place]).verdict.status == "pass"


def test_a_release_is_what_was_audited_and_passes(made: Path, tmp_path: Path) -> None:
    found = release(made / "clean", tmp_path / "out")
    assert found.images == 150
    assert list_folder(tmp_path / "out") == list_folder(made / "clean")  # the only bytes that these pixels have
    out = write_statement(made / "runs" / "clean", images=[tmp_path / "out"], out=tmp_path / "stated").folder
    assert gate(out, images=[tmp_path / "out"], kinds=TRIED).passed
    for file, source in zip(sorted((tmp_path / "out").glob("*.png")), sorted((made / "drawn").iterdir()), strict=True):
        np.testing.assert_array_equal(np.asarray(Image.open(file)), np.asarray(Image.open(source)))


def test_the_gate_names_the_resolution_that_was_audited(made: Path, stated: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "clean", tmp_path / "out")
    pixels = np.asarray(Image.open(tmp_path / "out" / FIRST))
    (tmp_path / "out" / FIRST).write_bytes(encode_png(np.repeat(pixels, 2, axis=1)[..., None]))
    said = "the audit compared 8 x 8 grey pixels of 8 bits, and 000001.png holds 16 x 8 grey pixels of 8 bits"
    assert said in gate(stated, images=[tmp_path / "out"]).line
    said = "holds 16 x 8 grey pixels of 8 bits, and the audit compared 8 x 8 grey pixels of 8 bits"
    with pytest.raises(InputError, match=said):
        make_statement(made / "runs" / "clean", images=[tmp_path / "out"])


def test_a_crop_passes_for_the_crop_alone(runs: Path, tmp_path: Path) -> None:
    """A training image lies left and right of each audited one."""
    (tmp_path / "wide").mkdir()
    secrets = sorted(Path("train").iterdir())
    for row, file in enumerate(sorted(Path("drawn").iterdir())):
        secret = np.asarray(Image.open(secrets[row % len(secrets)]))
        wide = np.hstack([secret[:, :4], np.asarray(Image.open(file)), secret[:, 4:]])
        Image.fromarray(wide).save(tmp_path / "wide" / file.name)
    settings = {**PASSES, **OF, "size": 8, "resize": "crop"}
    audit_synthetic("train", str(tmp_path / "wide"), held_out="held", out=tmp_path / "run", **settings)
    with pytest.raises(InputError, match=r"drawn0000_0.*the audit compared 8 x 8 grey pixels of 8 bits"):
        make_statement(tmp_path / "run", images=[tmp_path / "wide"])
    release(tmp_path / "run", tmp_path / "out")
    assert list_folder(tmp_path / "out") == list_folder(Path("clean"))
    stated = write_statement(tmp_path / "run", images=[tmp_path / "out"], out=tmp_path / "s").folder
    assert gate(stated, images=[tmp_path / "out"], kinds=TRIED).passed
    said = "the audit compared 8 x 8 grey pixels of 8 bits, and drawn0000_0.png holds 16 x 8 grey pixels of 8 bits"
    assert said in gate(stated, images=[tmp_path / "wide"]).line


@pytest.mark.parametrize("name", ["DOE_{}.png", "DOE/{}.png"])
def test_a_release_under_other_names_is_none(made: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    shutil.copytree(made / "clean", out)
    (out / "DOE").mkdir()
    for file in sorted(out.glob("*.png")):
        file.rename(out / name.format(file.stem))
    names = sorted(str(file.relative_to(out)) for file in out.rglob("*.png"))
    (out / "metadata.csv").write_bytes(manifest_bytes(names, [""] * len(names)))
    if not any((out / "DOE").iterdir()):
        (out / "DOE").rmdir()
    with pytest.raises(InputError, match=r"DOE.* not among the files of a release"):
        make_statement(made / "runs" / "clean", images=[out])


def test_a_release_in_an_order_of_its_own_is_none(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "clean", tmp_path / "out")
    files = sorted((tmp_path / "out").glob("*.png"))
    first, second = (file.read_bytes() for file in files[:2])
    files[0].write_bytes(second)
    files[1].write_bytes(first)
    with pytest.raises(InputError, match=r"000001\.png is not the image that was audited in this place"):
        make_statement(made / "runs" / "clean", images=[tmp_path / "out"])


def test_a_table_of_names_in_an_order_of_its_own_is_no_part_of_a_set(made: Path, tmp_path: Path) -> None:
    folder, names = tmp_path / "clean", clean_names(150)
    shutil.copytree(made / "clean", folder)
    names[3], names[4] = names[4], names[3]
    (folder / "metadata.csv").write_bytes(manifest_bytes(names, [""] * len(names)))
    with pytest.raises(InputError, match=r"metadata\.csv is not there, or not as of a release"):
        make_statement(made / "runs" / "clean", images=[folder])


def test_the_text_of_a_listing_is_not_the_folder(made: Path, stated: Path, tmp_path: Path) -> None:
    """It has the checksum that the folder is known by, as sha256sum would print it."""
    lines = (f"{sha256}  {name}\n" for name, sha256 in sorted(list_folder(made / "clean").items()))
    (tmp_path / "listing").write_text("".join(lines))
    found = gate(stated, images=[tmp_path / "listing"])
    assert file_sha256(tmp_path / "listing") == checksum(made / "clean").sha256
    assert not found.passed
    assert "is not what was audited" in found.line


def test_independent_tools_find_nothing_else_in_a_clean_export(tmp_path: Path) -> None:
    """A set of every kind of surplus, as ExifTool and pngcheck see its export."""
    tools = [shutil.which("exiftool"), shutil.which("pngcheck")]
    if not all(tools):
        pytest.skip("ExifTool and pngcheck (libimage-exiftool-perl, pngcheck) are not installed")
    (tmp_path / "set").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    picture, told = Image.fromarray(pixels), PngInfo()
    told.add_text("PatientName", "DOE")
    exif = picture.getexif()
    exif[0x010E] = "DOE"  # ImageDescription
    picture.save(tmp_path / "set" / "text.png", pnginfo=told, exif=exif)
    picture.save(tmp_path / "set" / "frames.png", save_all=True, append_images=[picture.rotate(90)])
    picture.save(tmp_path / "set" / "exif.jpg", exif=exif, comment=b"DOE", progressive=True)
    picture.convert("P").save(tmp_path / "set" / "palette.gif", comment=b"DOE")
    picture.save(tmp_path / "set" / "note.tif", tiffinfo={270: "DOE"})
    (tmp_path / "set" / "exif.jpg").open("ab").write(b"DOE")
    assert release(tmp_path / "set", tmp_path / "out").images == 5
    files = sorted((tmp_path / "out").glob("*.png"))
    command = [str(tools[0]), "-json", "-G1", "-a", "-u", *map(str, files)]
    found = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    groups = {name.split(":")[0] for one in found for name in one} - {"SourceFile"}
    assert groups == {"ExifTool", "System", "File", "PNG", "Composite"}
    assert {name for one in found for name in one if name.startswith("PNG:")} == {
        "PNG:ImageWidth", "PNG:ImageHeight", "PNG:BitDepth", "PNG:ColorType", "PNG:Compression", "PNG:Filter",
        "PNG:Interlace",
    }  # fmt: skip
    assert subprocess.run([str(tools[1]), "-q", *map(str, files)], capture_output=True, check=False).returncode == 0
    assert not any(b"DOE" in file.read_bytes() for file in files)
