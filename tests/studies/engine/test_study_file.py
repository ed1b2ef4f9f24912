"""The file of a study: names of settings as they are written on the command line."""

import pytest

from memorisk.cli.main import main
from memorisk.runs.errors import InputError
from memorisk.studies.engine.study_file import underscored

FILE = """
seeds: [1, 2]
settings: {{sample: 120, epochs: 1{more}}}
architectures: {{small-net: {{model: small_cnn, batch-size: 16}}}}
datasets: {{my-digits: {{images: digits, split-seed: 3, bases: {{class-a: shape}}}}}}
"""


def test_settings_may_have_hyphens_and_names_keep_theirs():
    config = {
        "settings": {"group-from": "x-(y)"},
        "datasets": {"my-set": {"image-root": "a-b", "bases": {"class-a": "a-b"}, "generator": {"batch-size": 4}}},
    }
    assert underscored(config) == {
        "settings": {"group_from": "x-(y)"},
        "datasets": {"my-set": {"image_root": "a-b", "bases": {"class-a": "a-b"}, "generator": {"batch_size": 4}}},
    }


def test_a_setting_in_both_spellings_is_refused():
    with pytest.raises(InputError, match=r"image_root of my-set is there twice"):
        underscored({"datasets": {"my-set": {"image-root": "a", "image_root": "b"}}})


def test_a_study_takes_the_names_of_flags(tmp_path, capsys):
    file = tmp_path / "study.yaml"
    file.write_text(FILE.format(more=", split-sed: 1"))
    command = ["study", "rare-distinctive", "--config", str(file), "--out", str(tmp_path / "run"), "--dry-run"]
    assert main(command) == InputError.exit_code
    assert "split_sed" in capsys.readouterr().err
    file.write_text(FILE.format(more=""))
    assert main(command) == 0
    assert "small-net" in capsys.readouterr().out
