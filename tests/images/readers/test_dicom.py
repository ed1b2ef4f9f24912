"""DICOM: greys as the standard's formulas give them, every real file read or refused with a reason."""

import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from memorisk.images.readers import dicom as readers_dicom
from memorisk.images.readers import dicom as readers_dicom_apart
from memorisk.images.readers.registry import count_frames, read_image
from memorisk.runs.errors import InputError, MissingExtraError
from tests.images.dicom_making import dicom, items, lut, save, save_big_endian, with_elements
from tests.images.making import read_or_message, write

pydicom = pytest.importorskip("pydicom")

RNG = np.random.default_rng(0)
STORED = RNG.integers(0, 4096, (16, 20)).astype(np.uint16)
SIGNED = RNG.integers(-1000, 3000, (16, 20)).astype(np.int16)


def _share(values: np.ndarray, low: float, high: float, top: int = 255) -> np.ndarray:
    return np.rint(np.clip((values.astype(float) - low) / (high - low), 0, 1) * top)


def _percentiles(values: np.ndarray, top: int = 255) -> np.ndarray:
    return _share(values, float(np.percentile(values, 0.5)), float(np.percentile(values, 99.5)), top)


def _linear(values: np.ndarray, centre: float, width: float) -> np.ndarray:
    """PS3.3 C.11.2.1.2.1, case by case as it is printed there, onto 0..255."""
    out = np.empty(values.shape)
    for place, x in np.ndenumerate(values.astype(float)):
        if x <= centre - 0.5 - (width - 1) / 2:
            out[place] = 0
        elif x > centre - 0.5 + (width - 1) / 2:
            out[place] = 255
        else:
            out[place] = ((x - (centre - 0.5)) / (width - 1) + 0.5) * 255
    return np.rint(out)


def _read(tmp_path: Path, data: object, **options: object) -> np.ndarray:
    return read_image(save(data, tmp_path / "a.dcm"), **options)[..., 0]  # type: ignore[arg-type]


def test_the_declared_window_after_rescale(tmp_path: Path) -> None:
    window = {"WindowCenter": 40, "WindowWidth": 400}
    data = dicom(SIGNED, RescaleSlope=2, RescaleIntercept=-1024, **window)
    np.testing.assert_array_equal(_read(tmp_path, data), _linear(SIGNED * 2.0 - 1024, 40, 400))
    several = dicom(SIGNED, WindowCenter=[500, 40], WindowWidth=[900, 400])
    np.testing.assert_array_equal(_read(tmp_path, several), _linear(SIGNED, 500, 900))


def test_a_declared_window_is_kept_where_it_clips_all(tmp_path: Path) -> None:
    assert _read(tmp_path, dicom(STORED, WindowCenter=-9000, WindowWidth=10)).min() == 255
    assert _read(tmp_path, dicom(STORED, WindowCenter=9000, WindowWidth=10)).max() == 0


def test_linear_exact_and_sigmoid(tmp_path: Path) -> None:
    window = {"WindowCenter": 2000, "WindowWidth": 1000}
    exact = _read(tmp_path, dicom(STORED, VOILUTFunction="LINEAR_EXACT", **window))
    np.testing.assert_array_equal(exact, _share(STORED, 1500, 2500))
    sigmoid = _read(tmp_path, dicom(STORED, VOILUTFunction="SIGMOID", **window))
    np.testing.assert_array_equal(sigmoid, np.rint(255 / (1 + np.exp(-4 * (STORED - 2000.0) / 1000))))


def test_percentiles_where_nothing_usable_is_declared(tmp_path: Path) -> None:
    for window in (
        {},
        {"WindowCenter": 40},
        {"WindowCenter": 40, "WindowWidth": 0},
        {"WindowCenter": 40, "WindowWidth": 1},
    ):
        np.testing.assert_array_equal(
            _read(tmp_path, dicom(STORED, **window)), _percentiles(STORED), err_msg=str(window)
        )
    window = {"WindowCenter": 2000, "WindowWidth": 1000}
    np.testing.assert_array_equal(_read(tmp_path, dicom(STORED, **window), window="percentile"), _percentiles(STORED))


def test_padding_does_not_count_for_percentiles(tmp_path: Path) -> None:
    padded = SIGNED.copy()
    padded[:, :8] = -32000
    inside = SIGNED[:, 8:]
    low, high = np.percentile(inside, 0.5), np.percentile(inside, 99.5)
    data = dicom(padded)
    data.add_new("PixelPaddingValue", "SS", -32000)
    np.testing.assert_array_equal(_read(tmp_path, data), _share(padded, low, high))
    data.add_new("PixelPaddingValue", "SS", -32768)
    data.add_new("PixelPaddingRangeLimit", "SS", -31000)
    np.testing.assert_array_equal(_read(tmp_path, data), _share(padded, low, high))


@pytest.mark.parametrize("depth", [8, 16])
def test_the_full_range_is_that_of_the_stored_bits(tmp_path: Path, depth: int) -> None:
    top = 255 if depth == 8 else 65535
    unsigned = _read(tmp_path, dicom(STORED, bits=12), window="full", depth=depth)
    np.testing.assert_array_equal(unsigned, _share(STORED, 0, 4095, top))
    rescaled = dicom(SIGNED, RescaleSlope=-0.5, RescaleIntercept=7)
    expected = _share(SIGNED * -0.5 + 7, 32767 * -0.5 + 7, 32768 * 0.5 + 7, top)
    np.testing.assert_array_equal(_read(tmp_path, rescaled, window="full", depth=depth), expected)


def test_monochrome_1_is_inverted_last(tmp_path: Path) -> None:
    for options in ({}, {"window": "full"}, {"depth": 16}):
        window = {"WindowCenter": 2000, "WindowWidth": 1000}
        plain = _read(tmp_path, dicom(STORED, **window), **options)
        inverted = _read(tmp_path, dicom(STORED, photometric="MONOCHROME1", **window), **options)
        assert inverted.dtype == plain.dtype
        np.testing.assert_array_equal(inverted, np.iinfo(plain.dtype).max - plain)


def test_modality_and_voi_tables(tmp_path: Path) -> None:
    table = RNG.integers(0, 4096, 1000)  # maps 500..1499
    data = dicom(STORED, ModalityLUTSequence=items(lut(table, 500, 12)))
    mapped = table[np.clip(STORED.astype(int) - 500, 0, 999)]
    np.testing.assert_array_equal(_read(tmp_path, data, window="full"), _share(mapped, 0, 4095))
    voi = np.linspace(0, 255, 3000).astype(int)  # an 8-bit table with more than 256 entries, on rescaled values
    data = dicom(SIGNED, RescaleSlope=1, RescaleIntercept=-100, VOILUTSequence=items(lut(voi, -500, 8)))
    data.WindowCenter, data.WindowWidth = 0, 100  # a table goes before a window
    expected = voi[np.clip(SIGNED.astype(int) - 100 + 500, 0, 2999)]
    np.testing.assert_array_equal(_read(tmp_path, data), expected)


def test_tables_of_big_endian_files(tmp_path: Path) -> None:
    voi = RNG.integers(0, 1024, 4096)
    item = with_elements()
    item.add_new("LUTDescriptor", "US", [4096, 0, 10])
    item.add_new("LUTData", "OW", voi.astype(">u2").tobytes())
    path = save_big_endian(dicom(STORED, VOILUTSequence=items(item)), tmp_path / "b.dcm")
    np.testing.assert_array_equal(read_image(path)[..., 0], np.rint(voi[STORED] / 1023 * 255))


def test_functional_groups_of_the_frame_go_before_shared_ones(tmp_path: Path) -> None:
    frames = np.stack([STORED, STORED[::-1], STORED[:, ::-1]])
    own = [
        with_elements(FrameVOILUTSequence=items(with_elements(WindowCenter=c, WindowWidth=w)))
        for c, w in ((1000, 500), (2000, 700))
    ]
    shared = with_elements(
        PixelValueTransformationSequence=items(with_elements(RescaleSlope=2, RescaleIntercept=-100)),
        FrameVOILUTSequence=items(with_elements(WindowCenter=3000, WindowWidth=4000)),
    )
    data = dicom(
        frames,
        PerFrameFunctionalGroupsSequence=items(*own, with_elements()),
        SharedFunctionalGroupsSequence=items(shared),
        WindowCenter=1,
        WindowWidth=3,
    )
    path = save(data, tmp_path / "a.dcm")
    for frame, (centre, width) in enumerate([(1000, 500), (2000, 700), (3000, 4000)]):
        expected = _linear(frames[frame] * 2.0 - 100, centre, width)
        np.testing.assert_array_equal(read_image(path, frame=frame)[..., 0], expected)
    np.testing.assert_array_equal(read_image(path), read_image(path, frame=1))  # the middle one of three
    assert count_frames(path) == 3
    with pytest.raises(InputError, match="frames 0 to 2, not 3"):
        read_image(path, frame=3)


def test_colour_at_both_depths(tmp_path: Path) -> None:
    rgb = RNG.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    np.testing.assert_array_equal(read_image(save(dicom(rgb, photometric="RGB"), tmp_path / "a.dcm")), rgb)
    deep = RNG.integers(0, 1024, (6, 8, 3)).astype(np.uint16)
    path = save(dicom(deep, photometric="RGB", bits=10), tmp_path / "b.dcm")
    np.testing.assert_array_equal(read_image(path, depth=16), np.rint(deep / 1023 * 65535))
    ybr = np.full((2, 2, 3), (76, 85, 255), np.uint8)  # pure red by the formulas of PS3.3 C.7.6.3.1.2
    red = read_image(save(dicom(ybr, photometric="YBR_FULL"), tmp_path / "c.dcm"))
    assert np.abs(red.astype(int) - (254, 0, 0)).max() <= 1


def test_palette_colour(tmp_path: Path) -> None:
    indices = RNG.integers(0, 256, (6, 8), dtype=np.uint8)
    tables = RNG.integers(0, 65536, (3, 256))
    data = dicom(indices, photometric="PALETTE COLOR")
    for name, table in zip(("Red", "Green", "Blue"), tables, strict=True):
        data.add_new(f"{name}PaletteColorLookupTableDescriptor", "US", [256, 0, 16])
        data.add_new(f"{name}PaletteColorLookupTableData", "OW", table.astype("<u2").tobytes())
    path = save(data, tmp_path / "a.dcm")
    expected = np.moveaxis(tables[:, indices], 0, -1)
    np.testing.assert_array_equal(read_image(path, depth=16), expected)
    np.testing.assert_array_equal(read_image(path), np.rint(expected / 257))


def test_files_without_preamble_or_meta(tmp_path: Path) -> None:
    data = dicom(STORED)
    expected = _read(tmp_path, data)
    del data.file_meta
    for implicit, little in ((True, True), (False, True)):
        path = tmp_path / "bare"
        data.save_as(path, implicit_vr=implicit, little_endian=little, enforce_file_format=False)
        assert path.read_bytes()[128:132] != b"DICM"
        np.testing.assert_array_equal(read_image(path)[..., 0], expected)


def test_refusals_say_why(tmp_path: Path) -> None:
    plain = dicom(STORED)
    for change, what in [
        ({"Rows": 60000, "Columns": 60000}, r"60,000 x 60,000 pixels, more than the 100,000,000 allowed"),
        ({"Rows": None}, "Rows is absent"),
        ({"NumberOfFrames": 3}, "cut short: it holds 640 of the 1,920 bytes"),
        ({"PhotometricInterpretation": "STRANGE"}, "cannot be decoded|STRANGE"),
        ({"PixelData": None}, "cannot be read|cannot be decoded"),
    ]:
        data = dicom(STORED)
        for keyword, value in change.items():
            setattr(data, keyword, value)
        with pytest.raises(InputError, match=what):
            read_image(save(data, tmp_path / "a.dcm"))
    del plain.PixelData
    with pytest.raises(InputError, match=r"without pixels.*CT Image Storage"):
        read_image(save(plain, tmp_path / "b.dcm"))


def test_a_deflated_bomb_is_refused_before_it_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = dicom(np.zeros((1000, 1000), np.uint16))
    data.file_meta.TransferSyntaxUID = pydicom.uid.DeflatedExplicitVRLittleEndian
    path = save(data, tmp_path / "a.dcm")
    assert read_image(path).shape == (1000, 1000, 1)
    bomb = write(tmp_path / "bomb.dcm", path.read_bytes())
    assert bomb.stat().st_size < 10_000
    monkeypatch.setattr("memorisk.runs.size_limits.FREE_BYTES", 1_000_000)
    monkeypatch.setattr(pydicom, "dcmread", lambda *a, **k: pytest.fail("parsed"))
    with pytest.raises(InputError, match="decompression bomb"):
        read_image(bomb)


def test_a_missing_library_says_which_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(dicom(STORED), tmp_path / "a.dcm")
    monkeypatch.setitem(sys.modules, "pydicom", None)
    with pytest.raises(MissingExtraError, match=r"reading DICOM needs pydicom.*memorisk\[medical\]"):
        read_image(path)


# --- real files ------------------------------------------------------------------------------------------------------

PIXEL_FILES_OF_12_BIT_JPEG = {"JPEG-lossy.dcm", "JPGExtended.dcm"}  # need a GPL library
CLIPPED_BY_THEIR_WINDOW = {"17136", "17166", "17196"}  # 16 x 16 pixels of bone, in a window for the brain
BROKEN_ON_PURPOSE = {
    "JPEG2000-embedded-sequence-delimiter.dcm": "cannot be decoded|bomb",
    "MR_truncated.dcm": "cut short",
    "badVR.dcm": "NumberOfFrames is 1A",
    "meta_missing_tsyntax.dcm": "Rows is absent",
    "nested_priv_SQ.dcm": "Rows is absent",
}


def _real(shared_data: Path) -> list[Path]:
    folders = (shared_data / "dicom_pydicom" / "test_files", shared_data / "dicom_kcr")
    return [p for folder in folders for p in sorted(folder.rglob("*")) if p.is_file()]


def test_every_real_file_is_read_or_refused_with_its_reason(shared_data: Path) -> None:
    read, refused = set(), {}
    for path in _real(shared_data):
        image, message = read_or_message(path)
        if image is None:
            refused[path.name] = message
            assert message.isprintable()
            continue
        read.add(path.name)
        assert image.dtype == np.uint8
        assert image.shape[2] in (1, 3)
        one_grey = path.name in CLIPPED_BY_THEIR_WINDOW
        assert (int(image.max()) - int(image.min()) > 20) != one_grey, path.name
    for name, why in BROKEN_ON_PURPOSE.items():
        assert re.search(why, refused[name])
    unexpected = {
        name: why
        for name, why in refused.items()
        if name not in BROKEN_ON_PURPOSE | dict.fromkeys(PIXEL_FILES_OF_12_BIT_JPEG)
        and "without pixels" not in why
        and "not an image of a known kind" not in why
    }
    assert not unexpected
    assert len(read) >= 83


def test_greys_of_real_files_agree_with_pydicom(shared_data: Path) -> None:
    """Wherever pydicom's own modality and VOI functions apply, ours round to the same 8 bits."""
    compared = 0
    for path in _real(shared_data):
        image, _ = read_or_message(path)
        if image is None or image.shape[2] != 1:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = pydicom.dcmread(path, force=True)
            if "WindowWidth" not in data or "SharedFunctionalGroupsSequence" in data or "ModalityLUTSequence" in data:
                continue
            frame = int(data.get("NumberOfFrames") or 1) // 2 if data.get("NumberOfFrames") else 0
            stored = pydicom.pixels.pixel_array(data, index=frame)
            shown = pydicom.pixels.apply_voi_lut(pydicom.pixels.apply_modality_lut(stored, data), data).astype(float)
        low = -(1 << (data.BitsStored - 1)) if data.PixelRepresentation else 0
        ends = np.array([low, low + (1 << data.BitsStored) - 1]) * float(data.get("RescaleSlope", 1))
        ends = ends + float(data.get("RescaleIntercept", 0))
        share = (shown - ends[0]) / (ends[1] - ends[0])
        share = 1 - share if data.PhotometricInterpretation == "MONOCHROME1" else share
        assert np.abs(image[..., 0] - share * 255).max() <= 0.5 + 1e-9, path.name
        compared += 1
    assert compared >= 40


def test_one_picture_in_many_encodings_is_one_picture(shared_data: Path) -> None:
    folder = shared_data / "dicom_pydicom" / "test_files"
    expected = read_image(folder / "MR_small.dcm")
    for name in ("RLE", "bigendian", "expb", "implicit", "jp2klossless", "jpeg_ls_lossless", "padded"):
        np.testing.assert_array_equal(read_image(folder / f"MR_small_{name}.dcm"), expected, err_msg=name)
    colour = read_image(folder / "SC_rgb_rle.dcm")
    for name in ("SC_rgb_jpeg_gdcm.dcm", "SC_rgb_gdcm_KY.dcm", "SC_rgb_rle_16bit.dcm", "SC_rgb_rle_32bit.dcm"):
        np.testing.assert_array_equal(read_image(folder / name), colour, err_msg=name)
    np.testing.assert_array_equal(
        read_image(folder / "rtdose_rle.dcm", frame=3), read_image(folder / "rtdose.dcm", frame=3)
    )


def test_twelve_bit_jpeg_is_read_or_says_what_is_missing(shared_data: Path) -> None:
    for name in PIXEL_FILES_OF_12_BIT_JPEG:
        image, message = read_or_message(shared_data / "dicom_pydicom" / "test_files" / name)
        assert (image is not None) or "12 bits need pylibjpeg-libjpeg" in message


def test_a_real_file_cut_anywhere_is_refused_or_whole(shared_data: Path, tmp_path: Path) -> None:
    for name in ("SC_rgb_jpeg_dcmtk.dcm", "MR_small_RLE.dcm", "MR_small.dcm", "image_dfl.dcm", "JPEG2000.dcm"):
        source = shared_data / "dicom_pydicom" / "test_files" / name
        data, whole = source.read_bytes(), read_image(source)
        for cut in np.linspace(len(data) // 3, len(data) - 1, 12).astype(int):
            image, _ = read_or_message(write(tmp_path / "cut.dcm", data[:cut]))
            assert image is None or np.array_equal(image, whole)


def test_a_jpeg_frame_cut_within_its_fragment_is_refused(shared_data: Path, tmp_path: Path) -> None:
    data = pydicom.dcmread(shared_data / "dicom_pydicom" / "test_files" / "SC_rgb_jpeg_dcmtk.dcm")
    stream = pydicom.encaps.get_frame(data.PixelData, 0, number_of_frames=1)
    data.PixelData = pydicom.encaps.encapsulate([stream[: len(stream) // 2]])
    with pytest.raises(InputError, match="truncated JPEG frame"):
        read_image(save(data, tmp_path / "a.dcm"))
    data.PixelData = pydicom.encaps.encapsulate([stream[: len(stream) // 2] + b"\xff\xd9"])
    with pytest.raises(InputError, match="truncated JPEG"):
        read_image(save(data, tmp_path / "b.dcm"))


def test_a_compressed_frame_that_is_larger_than_declared(shared_data: Path, tmp_path: Path) -> None:
    data = pydicom.dcmread(shared_data / "dicom_pydicom" / "test_files" / "SC_rgb_jpeg_dcmtk.dcm")
    stream = bytearray(pydicom.encaps.get_frame(data.PixelData, 0, number_of_frames=1))
    frame_header = stream.index(b"\xff\xc0")
    stream[frame_header + 5 : frame_header + 9] = b"\xff\xff\xff\xff"
    data.PixelData = pydicom.encaps.encapsulate([bytes(stream)])
    with pytest.raises(InputError, match=r"65,535 x 65,535 pixels"):
        read_image(save(data, tmp_path / "a.dcm"))


def test_a_decoder_that_dies_does_not_take_the_run_along(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "dicom_pydicom" / "test_files"
    whole = read_image(folder / "SC_rgb_jpeg_gdcm.dcm")
    data = bytearray((folder / "SC_rgb_jpeg_gdcm.dcm").read_bytes())
    data[data.index(b"\xff\xd8\xff") + 3] = 0  # GDCM 3.0 to 3.2 end their process on this
    path = write(tmp_path / "a.dcm", bytes(data))
    with pytest.raises(InputError, match="GDCM"):
        readers_dicom_apart.decode_in_child(path, 0, "gdcm")
    image, message = read_or_message(path)  # another decoder may know it
    assert image is not None or "GDCM" in message
    np.testing.assert_array_equal(read_image(folder / "SC_rgb_jpeg_gdcm.dcm"), whole)


def test_a_jpeg_2000_frame_is_decoded_apart_with_the_same_values(
    shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shared_data / "dicom_pydicom" / "test_files" / "MR_small_jp2klossless.dcm"
    values = readers_dicom_apart.decode_in_child(path, 0, "pylibjpeg")
    here = pydicom.pixels.pixel_array(pydicom.dcmread(path), index=0, decoding_plugin="pylibjpeg")
    np.testing.assert_array_equal(values, here)
    asked = []
    monkeypatch.setattr(readers_dicom, "decode_in_child", lambda *given: asked.append(given) or values)
    read_image(path)
    assert asked == [(path, 0, "pylibjpeg")]


def test_the_process_apart_is_started_anew_after_it_died(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = shared_data / "dicom_pydicom" / "test_files" / "MR_small_jpeg_ls_lossless.dcm"
    whole = read_image(path)
    child = readers_dicom_apart._child()
    child.kill()
    child.wait()  # asked for once: after its death another one would be started, and live
    np.testing.assert_array_equal(read_image(path), whole)
    readers_dicom_apart._end_all()
    for program, what in (
        ("import os; os.abort()", "broke down"),
        ("import time; time.sleep(60)", "did not finish in 1"),
    ):
        monkeypatch.setattr(readers_dicom_apart, "_CHILD_CODE", program)
        monkeypatch.setattr(readers_dicom_apart, "_CHILD_TIMEOUT_S", 1.0 if "sleep" in program else 60.0)
        with pytest.raises(InputError, match=what):
            readers_dicom_apart.decode_in_child(path, 0, "gdcm")
    monkeypatch.undo()
    np.testing.assert_array_equal(read_image(path), whole)


@pytest.mark.parametrize("syntax", ["native", "RLELossless", "JPEG2000Lossless"])
@pytest.mark.parametrize("shift", [0, 4])
@pytest.mark.parametrize("stored", [STORED, SIGNED], ids=["unsigned", "signed"])
def test_bits_outside_the_stored_ones_do_not_count(tmp_path: Path, syntax: str, shift: int, stored: np.ndarray) -> None:
    stored = np.tile(stored, (2, 2))  # the encoder takes no smaller images
    values = np.clip(stored, -2048, 4095 if stored.dtype.kind == "u" else 2047).astype(stored.dtype)
    expected = _read(tmp_path, dicom(values, bits=12), window="full")
    outside = RNG.integers(0, 16, values.shape).astype(np.uint16)
    words = values.view(np.uint16) & 0x0FFF
    words = (words << 4 | outside) if shift else (words | outside << 12)
    data = dicom(words.view(stored.dtype))
    if syntax != "native":
        data.compress(getattr(pydicom.uid, syntax))
    data.BitsStored, data.HighBit = 12, 11 + shift
    np.testing.assert_array_equal(_read(tmp_path, data, window="full"), expected)


def test_a_codec_that_was_given_the_stored_bits_alone_returns_them_in_place(tmp_path: Path) -> None:
    stored = np.tile(STORED, (2, 2))
    expected = _read(tmp_path, dicom(stored, bits=12), window="full")
    data = dicom(stored, bits=12)
    data.compress(pydicom.uid.JPEG2000Lossless)
    data.HighBit = 15  # of the words before compression
    np.testing.assert_array_equal(_read(tmp_path, data, window="full"), expected)


def test_a_high_bit_below_the_stored_bits_is_refused(tmp_path: Path) -> None:
    data = dicom(STORED, bits=12)
    data.HighBit = 7
    with pytest.raises(InputError, match="HighBit is 7, and BitsStored 12 of 16 bits"):
        _read(tmp_path, data)


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("first", [0, -3])
def test_a_palette_whose_entries_fit_8_bits_is_of_8_bits(tmp_path: Path, bits: int, first: int) -> None:
    indices = RNG.integers(first, first + 256, (6, 8)).astype(np.int16)
    tables = RNG.permuted(np.tile(np.arange(256), (3, 1)), axis=1)
    data = dicom(indices, photometric="PALETTE COLOR")
    for name, table in zip(("Red", "Green", "Blue"), tables, strict=True):
        data.add_new(f"{name}PaletteColorLookupTableDescriptor", "SS", [256, first, bits])
        data.add_new(f"{name}PaletteColorLookupTableData", "OW", table.astype("<u2").tobytes())
    colours = read_image(save(data, tmp_path / "a.dcm"))
    np.testing.assert_array_equal(colours, np.moveaxis(tables[:, indices - first], 0, -1))


@pytest.mark.parametrize(
    ("uid", "name"), [("1.2.840.10008.1.2.4.110", "JPEG XL Lossless"), ("1.2.840.10008.1.2.4.102", "MPEG-4")]
)
def test_syntaxes_without_a_decoder_are_named_in_words(tmp_path: Path, uid: str, name: str) -> None:
    path = save(dicom(STORED), tmp_path / "a.dcm")
    old, new = (b"UI" + len(u).to_bytes(2, "little") + u for u in (b"1.2.840.10008.1.2.1\0", f"{uid}\0".encode()))
    path.write_bytes(path.read_bytes().replace(old, new))
    with pytest.raises(InputError, match=f"{name}.* is not decoded; convert it to Explicit VR Little Endian"):
        read_image(path)


def test_cases_of_high_bits_palettes_and_new_syntaxes(shared_cases: Path) -> None:
    clean = {name: read_image(shared_cases / "01-high-bits" / f"{name}.dcm") for name in ("clean", "clean_nowindow")}
    for path in (shared_cases / "01-high-bits").glob("*.dcm"):
        expected = clean["clean_nowindow" if path.stem.endswith("nowindow") else "clean"]
        np.testing.assert_array_equal(read_image(path), expected, err_msg=path.name)
    words = read_image(shared_cases / "07-palette" / "words16.dcm")
    for name in ("bytes8", "signed_first", "desc8_words_low", "desc8_words_doubled", "desc16_values_8bit"):
        np.testing.assert_array_equal(read_image(shared_cases / "07-palette" / f"{name}.dcm"), words, err_msg=name)
    for path in (shared_cases / "59-new-syntaxes").glob("*.dcm"):
        image, message = read_or_message(path)
        assert image is not None or "is not decoded; convert it" in message or "cut short" in message
