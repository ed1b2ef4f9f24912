"""What fuzzing found, each as its smallest input: one clear line, whatever the file holds."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from memorisk.audits.classifier.losses import read_scores
from memorisk.audits.rendering import load_result, render_again
from memorisk.images.sources.registry import load_manifest
from memorisk.models.autoencoder import _affine, _built
from memorisk.models.blackbox.saved_outputs import SavedOutputs
from memorisk.models.encoders.feature_sources import read_features
from memorisk.models.encoders.networks import PixelPca
from memorisk.models.generators.conditions import Conditions
from memorisk.models.generators.generators import load_generator, save_description
from memorisk.models.latents import load_encoder
from memorisk.models.settings import GanSpec, GeneratorConfig
from memorisk.models.weight_files import read_state_dict
from memorisk.report.result import Result
from memorisk.runs.errors import InputError, unknown_name
from memorisk.runs.files import read_table
from memorisk.training.autoencoders.latent_store import read_latents


def not_utf8(path: Path) -> Path:
    """A Parquet table whose text is none: pandas decodes a value when it is looked at, long after the file was read."""
    values = pa.array([b"a.png", b"\xff\xfe.png"], pa.binary())
    pq.write_table(
        pa.table({"path": pa.StringArray.from_buffers(2, *values.buffers()[1:3]), "label": ["x", "y"]}), path
    )
    return path


def test_text_that_is_no_utf8_is_met_when_a_table_is_read(tmp_path):
    Image.fromarray(np.zeros((2, 2), np.uint8)).save(tmp_path / "a.png")
    table = not_utf8(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="Invalid UTF8"):
        read_table(table)
    for read in (load_manifest, read_scores):
        with pytest.raises(InputError, match="Invalid UTF8"):
            read(table)


def test_notes_on_columns_that_are_damaged(tmp_path):
    table = pa.table({"a": ["x"]}).replace_schema_metadata(
        {"pandas": json.dumps({"index_columns": [], "columns": [{"name": "a", "pandas_type": "unicode"}]})}
    )
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="damaged notes on its columns"):
        read_table(tmp_path / "t.parquet")


def test_names_that_are_listed_as_known_are_printable():
    assert str(unknown_name("label", "9", ["\x00\x1b[31m", "4"])).isprintable()


def test_a_table_of_a_run_that_is_no_parquet_any_more(tmp_path):
    Result(per_image=pd.DataFrame({"image": ["a"]}), verdict={"status": "pass"}).save(tmp_path)
    (tmp_path / "config.yaml").write_text("images: digits\n")
    (tmp_path / "per_image.parquet").write_bytes((tmp_path / "per_image.parquet").read_bytes()[:-9] + b"PAR1")
    for read in (load_result, render_again):
        with pytest.raises(InputError, match="issue the run's command again"):
            read(tmp_path)


NPY = b"\x93NUMPY\x01\x00"
IDS = np.array(list("abcd"), dtype=object)
HEADERS = [b"{'descr': '<f4', 'shape': (", b"{'descr': '<f4\n", b"(" * 300, b"\xff" * 20, b""]


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_of_an_array_that_is_no_header(tmp_path, header):
    """NumPy reads it as Python's literals, and lets through what Python's own tokenizer raises."""
    data = NPY + len(header).to_bytes(2, "little") + header
    (tmp_path / "f.npy").write_bytes(data)
    for name in ("clean", "features", "values", "conv.weight"):
        with zipfile.ZipFile(tmp_path / f"{name}.npz", "w") as archive:
            archive.writestr(f"{name}.npy", data)
    reads = {"f.npy": lambda f: read_features(f, IDS), "features.npz": lambda f: read_features(f, IDS)}
    reads |= {"clean.npz": SavedOutputs.read, "conv.weight.npz": read_state_dict, "values.npz": PixelPca.load}
    for name, read in reads.items():
        with pytest.raises(InputError) as refused:
            read(tmp_path / name)
        assert str(refused.value).isprintable()


@pytest.mark.parametrize("data", [b"\x80\x02X\x01", b"PK\x03\x04" + b"\0" * 30, b"\x80\x02.", b"\x80\x02}q\0."])
def test_a_checkpoint_that_breaks_off(tmp_path, data):
    (tmp_path / "w.pt").write_bytes(data)
    with pytest.raises(InputError, match="weights file"):
        read_state_dict(tmp_path / "w.pt")


@pytest.mark.parametrize("change", [{"details": "x"}, {"name": None}, {"latent": []}])
def test_a_generators_description_of_other_kinds(tmp_path, change):
    save_description(tmp_path, GeneratorConfig(kind="gan", name="small", size=(16, 16), channels=3))
    file = tmp_path / "generator.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(InputError, match="not a description of a generator"):
        load_generator(tmp_path)


@pytest.mark.parametrize("name", ["f.npy", "f.npz"])
def test_features_that_are_another_archive(tmp_path, name):
    with zipfile.ZipFile(tmp_path / name, "w") as archive:
        archive.writestr("image.npy", b"no array")
        archive.writestr("features.npy", b"none either")
    with pytest.raises(InputError, match="cannot be read"):
        read_features(tmp_path / name, np.array(["a"]))


def no_characters(n: int) -> np.ndarray:
    """Text of NumPy that no character is: it is met when a value is looked at, long after the file was read."""
    return np.full(n, 0xFFFFFFFF, "<u4").view("<U1")


def test_ids_that_are_no_characters(tmp_path):
    np.savez(tmp_path / "f.npz", features=np.zeros((2, 3)), image=no_characters(2))
    with pytest.raises(InputError, match="numbers that are not characters"):
        read_features(tmp_path / "f.npz", np.array(["a", "b"], dtype=object))
    np.savez(tmp_path / "l.npz", latents=np.zeros((2, 1, 3, 3), np.float32), image=no_characters(2))
    with pytest.raises(InputError, match="numbers that are not characters"):
        read_latents(tmp_path / "l.npz")
    parts = {"values": np.zeros((2, 3)), "labels": np.array(["a", "b"]), "conditioning": "x", "notes": np.array(["a"])}
    np.savez(tmp_path / "conditions.npz", images=no_characters(2), **parts)
    with pytest.raises(InputError, match="numbers that are not characters"):
        Conditions.load(tmp_path)


def test_latents_whose_header_is_no_header(tmp_path):
    with zipfile.ZipFile(tmp_path / "l.npz", "w") as archive:
        archive.writestr("latents.npy", b"\x93NUMPY\x01\x00\x04\x00{'a\n")
    with pytest.raises(InputError, match="cannot be read"):
        read_latents(tmp_path / "l.npz")


def test_an_encoder_of_a_size_without_end(tmp_path):
    told = {"format": 1, "kind": "pixels", "name": "x", "channels": 1, "size": [8, 1e999], "latent_shape": [1, 8, 8]}
    (tmp_path / "encoder.json").write_text(json.dumps(told))
    with pytest.raises(InputError, match="is not a description of an encoder: cannot convert float infinity"):
        load_encoder(tmp_path)


def test_a_gan_of_widths_that_nobody_builds():
    given = {"size": 16, "channels": 3, "style": 10**30, "mapping_layers": 2, "features": 28, "features_max": 8}
    with pytest.raises(InputError, match=r"style of a GAN is 1000.*it must lie from 1 to"):
        GanSpec.of(given)


def test_an_autoencoder_of_more_layers_than_anybody_builds():
    with pytest.raises(InputError, match="layers_per_block"):
        _built({"in_channels": 1, "latent_channels": 4, "layers_per_block": 10**30}, "x")


@pytest.mark.parametrize(
    "config", [{"scaling_factor": [1]}, {"scaling_factor": "a"}, {"latents_mean": 1.0, "latents_std": 2.0}]
)
def test_an_autoencoder_of_odd_numbers(config):
    with pytest.raises(InputError, match="scaling does not read"):
        _affine(config)
