"""Settings and studies that hold anything: read as what they say, or refused in one line."""

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memorisk.cli.settings import read_yaml
from memorisk.runs.errors import InputError
from memorisk.runs.folder import read_config
from memorisk.studies.generators.config import read_generators
from memorisk.studies.unique_features.config import read_unique
from tests.fuzz.packing import ODD, places

RECIPES = Path(__file__).parents[1] / "recipes"
STUDIES: dict[str, Callable[[Mapping[str, Any]], object]] = {
    "generators-small.yaml": read_generators,
    "unique-features-small.yaml": read_unique,
    "unique-features-digits.yaml": read_unique,
}
WORDS = (
    "a",
    "models",
    "1",
    "3e-4",
    "1:30",
    "0x1f",
    "2026-13-45",
    "9" * 5000,
    "~",
    "yes",
    ".nan",
    "-.inf",
    "'",
    '"',
    "é",
)
MARKS = (
    ": ",
    "- ",
    "\n",
    "  ",
    "[",
    "]",
    "{",
    "}",
    ", ",
    "? ",
    "&a ",
    "*a",
    "<<: ",
    "|\n",
    ">\n",
    "#",
    "---\n",
    "...\n",
)
TAGS = (
    "!!int ",
    "!!float ",
    "!!bool ",
    "!!timestamp ",
    "!!set ",
    "!!omap ",
    "!!binary ",
    "!!python/name:os.system ",
    "!x ",
)
documents = st.lists(st.sampled_from((*WORDS, *MARKS, *TAGS)), max_size=12).map("".join)


def check(read: Callable[[], object]) -> bool:
    """Whether it is read; a refusal is one printable line."""
    line = ""
    try:
        read()
    except InputError as refusal:
        line = str(refusal)
    assert line.isprintable()
    return not line


@pytest.mark.parametrize(
    "text",
    ["d: 2026-13-45", "n: " + "9" * 5000, "a: " + "[" * 1200, "a: !!timestamp x", "a: !!bool x", "a: !!int ''"],
)
def test_what_yaml_itself_breaks_at(tmp_path, text):
    (tmp_path / "config.yaml").write_text(text)
    for read in (lambda: read_yaml(tmp_path / "config.yaml"), lambda: read_config(tmp_path)):
        with pytest.raises(InputError, match=r"config\.yaml.* (is not YAML|does not parse): "):
            read()


@settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(documents)
def test_any_document_is_settings_or_refused(tmp_path, text):
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    check(lambda: read_config(tmp_path))
    found: list[Any] = []
    if check(lambda: found.append(read_yaml(tmp_path / "config.yaml"))):
        assert all(isinstance(name, str) and value is not None for name, value in found[0].items())


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_any_study_is_read_or_refused(data):
    name = data.draw(st.sampled_from(sorted(STUDIES)))
    config = read_yaml(RECIPES / name, flags=False)
    assert check(lambda: STUDIES[name](config))
    for _ in range(data.draw(st.integers(1, 2))):
        holder, key = data.draw(st.sampled_from(list(places(config))))
        if data.draw(st.booleans()):
            holder[key] = copy.deepcopy(data.draw(st.sampled_from(ODD)))
        elif isinstance(holder, dict):
            holder[data.draw(st.sampled_from(["seeds", "x", ""]))] = holder.pop(key)
    check(lambda: STUDIES[name](config))
