"""The font of a study's file: a path, read before anything else is."""

from pathlib import Path

import matplotlib
import pytest

from memorisk.audits.feature.marks import choose_mark
from memorisk.runs.errors import InputError
from memorisk.studies.unique_features.config import read_unique
from memorisk.studies.unique_features.study import study_unique_features
from tests.studies.unique_features.conftest import changed

FONT = str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSerif-Bold.ttf")
TEXT = {"mark": "text:DOE", "text_height": 8}


def test_the_font_that_a_file_names_draws_the_text() -> None:
    options = read_unique(changed(TEXT | {"font": FONT})).options
    assert options.font == Path(FONT)
    own, usual = (choose_mark(o, "top-left").alpha for o in (options, read_unique(changed(TEXT)).options))
    assert own.shape != usual.shape or (own != usual).any()
    assert read_unique(changed(TEXT | {"font": None})).options.font is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (TEXT | {"font": "Times New Roman"}, "the font file Times New Roman does not exist; name a .ttf"),
        (TEXT | {"font": __file__}, "cannot be read"),
        (TEXT | {"font": 12}, "font is 12; give a path"),
        (TEXT | {"font": ""}, "the font file . does not exist; name a .ttf"),
        ({"mark": "A", "font": FONT}, "font is for text, and mark is A"),
        ({"mark": "text:"}, "one line"),
        ({"mark": "nobody.png"}, "mark is nobody.png: neither a letter"),
        ({"mark": 3}, "mark is 3; give text"),
    ],
)
def test_a_wrong_font_or_mark_is_one_line_at_the_start(settings: dict, words: str, tmp_path: Path) -> None:
    """Before images are read: the data set's folder is not there."""
    config = changed(settings, {"images": str(tmp_path / "nowhere")})
    with pytest.raises(InputError, match=words) as caught:
        study_unique_features(config, out=tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()
