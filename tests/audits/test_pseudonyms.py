"""Keyed hashes in place of ids: the same conclusions, no order and no id left."""

import hmac
import stat
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pandas as pd
import pytest

from memorisk.audits.classifier.analysis import analyse
from memorisk.audits.classifier.evidence import Context
from memorisk.audits.classifier.options import AnalysisOptions
from memorisk.audits.classifier.pages.thumbnails import MOST_THUMBNAILS, thumbnails
from memorisk.audits.pseudonyms import Pseudonyms, draw_seed
from memorisk.audits.run_images import CLASSIFIED, parts_of
from memorisk.report.options import ReportOptions
from memorisk.report.result import Result
from memorisk.runs.errors import InputError
from memorisk.runs.files import write_bytes
from memorisk.runs.folder import is_hidden, open_run, read_config
from tests.audits.made_evidence import twin_evidence

KEY = b"a secret of sixteen bytes"


def test_a_pseudonym_is_a_keyed_hash():
    names = Pseudonyms(KEY).names(["p1", "p2", "p1"])
    assert names[0] == names[2] == hmac.new(KEY, b"p1", sha256).hexdigest()[:16]
    assert names[0] != names[1]
    assert Pseudonyms(b"another secret of 16 b").names(["p1"])[0] != names[0]
    assert Pseudonyms(None).names(["p1"]).tolist() == ["p1"]


def test_a_seed_depends_on_the_key_and_no_pseudonym_tells_it(tmp_path):
    write_bytes(tmp_path / "key", KEY)
    hiding = ReportOptions(pseudonymise=True, pseudonym_key=tmp_path / "key")
    seeds = [draw_seed(hiding, seed) for seed in range(100)]
    assert seeds == [draw_seed(hiding, seed) for seed in range(100)]
    assert len(set(seeds)) == 100
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert max(seeds) > 2**62  # 32 bits could be tried one by one
    assert draw_seed(ReportOptions(), 7) == 7
    for made in ("7", "seed 7"):  # a patient of such an id
        assert int(Pseudonyms(KEY).names([made])[0], 16) >> 1 != seeds[7]
    write_bytes(tmp_path / "key", b"another secret of 16 b")
    assert not {draw_seed(hiding, seed) for seed in range(100)} & set(seeds)


def test_conclusions_are_the_same_under_pseudonyms_and_the_old_order_is_gone():
    evidence = twin_evidence(sizes={"a": 20, "b": 10}, n_test=8, n_seeds=4, planted={"a": 1.0}, group_size=2)
    plain = analyse(evidence, AnalysisOptions(), Context(design="balanced"))
    hidden = Pseudonyms(KEY).result(plain)
    pd.testing.assert_frame_equal(hidden.per_class, plain.per_class)
    pd.testing.assert_frame_equal(hidden.attacks, plain.attacks)
    name = dict(zip(plain.per_image["image"], Pseudonyms(KEY).names(plain.per_image["image"]), strict=True))
    m = hidden.per_image.set_index("image")["M"]
    np.testing.assert_array_equal(m[[name[i] for i in plain.per_image["image"]]], plain.per_image["M"])
    for table in (hidden.per_image, hidden.per_group):
        ids = table.groupby("label")["image" if "image" in table else "group"]
        assert all(list(values) == sorted(values) for _, values in ids)
        assert not table.astype(str).stack().str.contains("canary-").any()
    scores = Pseudonyms(KEY).evidence(evidence)
    assert list(scores.items.image) == sorted(scores.items.image)
    back = {name[i]: evidence.loss_a[:, k] for k, i in enumerate(evidence.items.image)}
    for k, i in enumerate(scores.items.image):
        assert (scores.loss_a[:, k] == back[i]).all()
    again = analyse(scores, AnalysisOptions(), Context(design="balanced"))
    for column in ("mean", "low", "high", "flagged"):
        np.testing.assert_allclose(again.per_class[column], plain.per_class[column], rtol=1e-12)


def test_a_manifest_keeps_no_column_that_may_hold_a_name():
    table = pd.DataFrame(
        {"image": ["i2", "i1"], "label": ["a", "b"], "group": ["g", "h"], "path": ["x/i2", "x/i1"], "split": ["t", "t"],
         "birth_date": ["1950", "1960"], "part": ["canary", "test"], "training_group": ["g", "g"]}
    )  # fmt: skip
    hidden = Pseudonyms(KEY).table(table)
    assert set(hidden.columns) == {"image", "group", "training_group", "label", "split", "part"}
    assert not hidden.astype(str).isin(["i1", "i2", "g", "h", "x/i1", "1950"]).any().any()
    assert Pseudonyms(None).table(table) is table


def test_keys_come_from_a_file_or_are_made_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    asked = ReportOptions(pseudonymise=True)
    made = Pseudonyms.from_options(asked)
    assert made.key is not None
    assert len(made.key) == 32
    assert Pseudonyms.from_options(asked) == made
    file = tmp_path / "config" / "memorisk" / "pseudonym.key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert Pseudonyms.from_options(ReportOptions()).key is None
    write_bytes(tmp_path / "key", KEY)
    assert Pseudonyms.from_options(replace(asked, pseudonym_key=tmp_path / "key")).key == KEY
    write_bytes(tmp_path / "short", b"15 bytes or few")
    for name, message in (("short", "at least 16"), ("absent", "cannot be read")):
        with pytest.raises(InputError, match=message):
            Pseudonyms.from_options(replace(asked, pseudonym_key=tmp_path / name))
    file.write_bytes(b"")
    with pytest.raises(InputError, match="at least 16"):
        Pseudonyms.from_options(asked)


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o666])
def test_a_key_that_others_may_read_or_replace_is_refused(tmp_path, mode):
    file = tmp_path / "key"
    write_bytes(file, KEY)
    asked = ReportOptions(pseudonymise=True, pseudonym_key=file)
    assert Pseudonyms.from_options(asked).key == KEY
    file.chmod(mode)
    with pytest.raises(InputError, match=r"other users of this machine.*chmod 600 .*key") as refused:
        Pseudonyms.from_options(asked)
    assert "\n" not in str(refused.value)
    file.chmod(0o400)
    assert Pseudonyms.from_options(asked).key == KEY


def test_paths_of_a_run_are_hashes_and_known_to_this_user_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    weights = tmp_path / "doe" / "w.safetensors"
    weights.parent.mkdir()
    weights.touch()
    config = {
        "images": "doe", "out": "runs/doe", "model": "small/8", "normalise": "0.5/0.25", "group_from": "^(.*)/doe",
        "features": ["pixels", f"resnet50@{weights}"], "image_root": None, "level": 0.1, "url": "s3://doe/skin",
        "run": {"features": f"resnet50@{weights}", "seed": 3},
    }  # fmt: skip
    names = Pseudonyms(KEY).knowing(config)
    told = names.settings(config)
    hidden = {name: value for name, value in told.items() if value != config[name]}
    assert set(hidden) == {"images", "out", "features", "url", "run"}
    assert told["features"][0] == "pixels"
    assert told["run"] == {"features": told["features"][1], "seed": 3}
    assert str(weights) not in str(told)
    assert names.settings(config) == Pseudonyms(KEY).knowing(config).settings(config)
    result = names.without_paths(Result(summary={"notes": [f"weights of resnet50@{weights} are random"]}))
    assert result.summary["notes"] == [f"weights of {told['features'][1]} are random"]
    assert names.source("doe") == told["images"]
    assert (names.source("digits"), Pseudonyms(None).source("doe")) == ("digits", "doe")
    with open_run(tmp_path / "run", told, identity=["run"]):
        assert read_config(tmp_path / "run") == config | {"run": told["run"]}
    book = tmp_path / "config" / "memorisk" / "hidden-paths.jsonl"
    assert stat.S_IMODE(book.stat().st_mode) == 0o600
    lines = book.read_text()
    Pseudonyms(KEY).knowing(config)
    assert book.read_text() == lines  # nothing is noted twice
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another"))
    assert read_config(tmp_path / "run") == told


def test_a_user_without_a_folder_of_settings_loses_the_paths_and_nothing_else(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    told = Pseudonyms(KEY).knowing({"images": "doe"}).settings({"images": "doe"})
    assert is_hidden(told["images"])


def test_the_gallery_shows_the_images_with_the_largest_m_under_the_shown_id():
    evidence = twin_evidence(sizes={"a": 20}, n_test=8, n_seeds=3, planted={"a": 1.0})
    names = Pseudonyms(KEY)
    result = names.result(analyse(evidence, AnalysisOptions(), Context(design="balanced")))
    rng = np.random.default_rng(0)

    class Manifest:
        images = evidence.items.image
        n = len(evidence.items)

    class Store:
        manifest = Manifest
        images = rng.integers(0, 255, (len(evidence.items), 4, 4, 1), dtype=np.uint8)

    shown = thumbnails(result, parts_of({CLASSIFIED: Store}, names))
    largest = result.per_image.dropna(subset=["M"]).nlargest(MOST_THUMBNAILS, "M")["image"]
    assert list(shown) == list(largest)
    original = dict(zip(names.names(evidence.items.image), range(len(evidence.items)), strict=True))
    for name, pixels in shown.items():
        assert (pixels == Store.images[original[name]]).all()
