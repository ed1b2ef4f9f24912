"""Every text of a page's ``wording.toml`` is named once by the module that shows it."""

import importlib
import re
from pathlib import Path

import pytest

from memorisk.report.texts import read_texts


@pytest.mark.parametrize("name", ["synthetic.wording", "filter.wording", "synthesize.page"])
def test_every_text_is_used_once(name: str) -> None:
    module = importlib.import_module(f"memorisk.audits.{name}")
    names = re.findall(r'_TEXTS\["(\w+)"\]', Path(str(module.__file__)).read_text(encoding="utf-8"))
    assert sorted(names) == sorted(read_texts(f"memorisk.audits.{name.partition('.')[0]}"))
