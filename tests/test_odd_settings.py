"""Settings and studies that hold anything: read as what they say, or refused in one line."""

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memorisk
from memorisk.audits.classifier.options import ClassifierOptions
from memorisk.cli.settings import read_yaml
from memorisk.runs.errors import InputError
from memorisk.runs.folder import read_config
from memorisk.runs.settings import named_settings
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


def with_settings() -> Iterator[tuple[str, Any]]:
    """Public functions that make a dataclass of their settings, and classes that do so when they are made."""
    for name, module in memorisk._PUBLIC.items():
        value = getattr(import_module(module), name)
        maker = value.__init__ if inspect.isclass(value) else value
        if hasattr(maker, "__signature__"):
            yield name, maker


def kinds(hint: Any) -> set[Any]:
    """The plain types in an annotation; of several texts numbers, too, and of choices any plain value."""
    if get_origin(hint) in (Union, UnionType, tuple, Sequence):
        inner = set().union(*(kinds(part) for part in get_args(hint)))
        several = get_origin(hint) in (tuple, Sequence)
        return inner | {int, float, bool} if several and str in inner else inner
    if get_origin(hint) is Literal:
        return {type(choice) for choice in get_args(hint)} | {int, float, str}
    return {int, float} if hint is float else {str, Path} if hint in (str, Path) else {get_origin(hint) or hint}


MAKERS = dict(with_settings())


@pytest.mark.parametrize("name", MAKERS)
def test_settings_of_a_wrong_type_are_refused_in_one_line(name: str, tmp_path: Path) -> None:
    code = MAKERS[name].__code__
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    parameters = inspect.signature(MAKERS[name]).parameters.values()
    needed = {p.name: "digits" for p in parameters if p.default is p.empty and p.name != "self"}
    needed |= {"out": tmp_path / "out"} if "out" in needed else {}
    asked = [p for p in parameters if p.name not in own]
    assert asked
    for parameter in asked:
        allowed = kinds(parameter.annotation) - {type(None)}
        for odd in (object(), 16, 16.5, True, "word", b"word", {"a": 1}, [object()], [[1]]):
            if type(odd) in allowed:
                continue
            with pytest.raises(InputError, match=f"^{parameter.name} is .*(;|, as)") as refusal:
                getattr(memorisk, name)(**needed, **{parameter.name: odd})
            assert str(refusal.value).isprintable()
    assert not (tmp_path / "out").exists()


def test_a_refusal_names_what_is_allowed() -> None:
    for values, told in (
        ({"models": "many"}, "models is 'many'; give a whole number"),
        ({"seeds": [1, "x"]}, r"seeds is \(1, 'x'\); give a whole number, or a list"),
        ({"label_from": 3}, "label_from is 3; give text"),
        ({"target": 3}, "target is 3; give a path"),
        ({"train_settings": "x"}, "train_settings is 'x'; give settings by name"),
        ({"redact": 1}, "redact is 1; give true or false"),
        ({"lr": True}, "lr is True; give a number"),
    ):
        with pytest.raises(InputError, match=told):
            named_settings(ClassifierOptions, values)


def test_what_is_meant_is_taken() -> None:
    meant = {
        "models": np.int64(8), "lr": np.float32(0.5), "redact": np.bool_(True), "seeds": np.array([1, 2]),
        "image_root": "a", "label_column": Path("dx"), "classes": 3, "epsilon": [1], "model": np.str_("mlp1"),
    }  # fmt: skip
    assert named_settings(ClassifierOptions, meant) == {
        "models": 8, "lr": 0.5, "redact": True, "seeds": (1, 2),
        "image_root": Path("a"), "label_column": "dx", "classes": ("3",), "epsilon": (1,), "model": ("mlp1",),
    }  # fmt: skip
    assert all(type(value).__module__ != "numpy" for value in named_settings(ClassifierOptions, meant).values())
