"""Settings of another type than they should have: "no" is true to Python."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest

from memorisk.audits.classifier.options import ClassifierOptions
from memorisk.audits.feature.options import FeatureOptions
from memorisk.runs.errors import InputError
from memorisk.runs.settings import check_types, written_settings
from memorisk.training.engine.options import TrainClassifierOptions


@dataclass
class Some:
    yes: bool = False
    whole: int | None = None
    share: float = 0.5
    either: Literal["auto", 1, 3] = "auto"
    text: str | None = None
    file: Path | None = None
    several: Annotated[tuple[int, ...] | None, "x"] = None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"yes": "no"}, "yes is 'no'; give true or false, without quotes"),
        ({"yes": 1}, "yes is 1; give true or false"),
        ({"whole": "7"}, "whole is '7'; give a whole number"),
        ({"whole": 2.5}, "whole is 2.5; give a whole number"),
        ({"whole": True}, "whole is True; give a whole number"),
        ({"share": "half"}, "share is 'half'; give a number"),
        ({"share": True}, "share is True; give a number"),
    ],
)
def test_another_type_is_refused(given: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_types(Some(**given))


def test_the_right_types_pass() -> None:
    check_types(Some(True, 7, 1, 3, "x", Path(), (1, 2)))
    check_types(Some(False, None, 0.25, "auto", None, None, None))


@pytest.mark.parametrize("kind", [ClassifierOptions, FeatureOptions, TrainClassifierOptions])
def test_the_defaults_of_every_command_pass(kind: type) -> None:
    check_types(kind())


def test_settings_of_a_file_are_of_their_own_types_again() -> None:
    given = {"file": "a/b", "text": "a/b", "several": [1, 2], "whole": 3, "run": {"other": 1}}
    assert written_settings(Some, given) == {"whole": 3, "text": "a/b", "file": Path("a/b"), "several": (1, 2)}
