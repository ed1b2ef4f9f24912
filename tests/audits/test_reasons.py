"""The contract of every reason: each form renders from example numbers, and plain words stay plain."""

import ast
import dataclasses
import importlib
import json
import re
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import memorisk
from memorisk.audits.filter.choice import MOST_NEW_PEOPLE
from memorisk.report.numbers import to_json
from memorisk.statistics.verdicts import class_reasons
from memorisk.statistics.verdicts.levels import MARK_LEVEL, PASS_POWER, POWER, VERDICT_LEVEL, share_words
from memorisk.statistics.verdicts.reasons import REASONS, Reason
from memorisk.statistics.verdicts.remedies import Ways
from memorisk.statistics.verdicts.scales import NOISE_ERROR
from memorisk.statistics.verdicts.units import UnitNames

SOURCES = Path(memorisk.__file__).parent
for path in sorted(SOURCES.rglob("*.py")):
    if re.search(r"\(.*Reason, code=", path.read_text()):
        importlib.import_module(".".join(path.relative_to(SOURCES.parent).with_suffix("").parts))

TECHNICAL = re.compile(
    r"\b(p|M|MemRate|nats?|epsilon|null|adjusted|level|logit|recall|AUC|TPR|FPR|METHODS)\b|[=<>≤≥±σεδ%{}]|--|_"
)
"""Words and signs that a sentence for the data-protection officer must not contain."""
WORDS = {"gate": "high", "method": "references", "rule": "share"}
"""Words of fields that take no others."""
TYPED_SHARE = re.compile(r"\b(four of five|nine of ten|(one|1) of (five|ten|20)) (cases|audits|sets)\b")
"""Levels that a sentence must read from `levels`."""


def example(kind: Any, name: str, n: int) -> Any:
    """Make a value of a type: numbers are ``n`` or a share, texts are a word."""
    if kind in (int, float, str, bool):
        return {int: n, float: 0.25, str: WORDS.get(name, "scanner"), bool: n > 1}[kind]
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return None if n == 1 and type(None) in parts else example(parts[0], name, n)
    if origin is typing.Literal:
        return parts[0]
    if origin is tuple:
        kinds = parts[:1] * n if parts[-1] is Ellipsis else parts
        return tuple(example(one, name, n) for one in kinds)
    if origin in (dict, Mapping):
        return {"few": example(parts[1], name, n)}
    if kind is UnitNames:
        return UnitNames("patient", "patients") if n > 1 else UnitNames("image", "images")
    assert dataclasses.is_dataclass(kind), kind
    return example_of(typing.cast(Any, kind), n)


def example_of(kind: Any, n: int) -> Any:
    """Make an example of a dataclass from the types of its fields."""
    hints = typing.get_type_hints(kind)
    own = [field.name for field in dataclasses.fields(kind) if field.init and hints[field.name] != tuple[Ways, ...]]
    return kind(**{name: example(hints[name], name, n) for name in own})


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("code", REASONS)
def test_a_reason_renders_in_every_form(code: str, n: int) -> None:
    reason: Reason = example_of(REASONS[code], n)
    assert reason.text, "a reason has a sentence for the engineer"
    assert not re.search(r"[{}]|\bnan\b", reason.text + reason.remedy)
    assert reason.plain, "a reason has a sentence for the data-protection officer"
    assert TECHNICAL.findall(reason.plain) == []
    assert not reason.plain.endswith("."), "pages join plain sentences"
    record = json.loads(json.dumps(to_json(reason) | reason.as_record()))
    assert {"code", "bears_on", "gravity", "text", "plain", "remedy"} <= record.keys()
    assert record["code"] == code


OF_LOSSES = [
    code for code, kind in REASONS.items() if re.search(r"statistics\.verdicts|classifier\.reasons", kind.__module__)
]


@pytest.mark.parametrize("code", OF_LOSSES)
def test_a_reason_of_a_generator_speaks_of_no_answer_and_of_no_nats(code: str) -> None:
    """Losses of generators are in SD; the same reason of a classifier may name nats, logits, answers."""
    units = UnitNames("patient", "patients", NOISE_ERROR.name)
    reason: Reason = dataclasses.replace(example_of(REASONS[code], 3), units=units)
    sentences = " ".join([reason.text, reason.plain, reason.remedy, reason.next_step])
    assert re.findall(r"\bnats?\b|accuracy|answer|logit", sentences) == []
    assert reason.as_record()["units"]["scale"] == NOISE_ERROR.name


@pytest.mark.parametrize("code", REASONS)
def test_a_field_says_its_unit(code: str) -> None:
    """A number's name begins or ends with what it counts; shares and p-values are named in full."""
    for field in dataclasses.fields(REASONS[code]):
        if field.type is int:
            assert field.name.startswith("n_"), f"{code}: {field.name}"


def test_codes_are_words_joined_by_hyphens() -> None:
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in REASONS)


def test_two_reasons_have_different_codes() -> None:
    with pytest.raises(ValueError, match="two reasons have the code few-seeds"):
        type("Other", (Reason,), {}, code="few-seeds")


def test_no_sentence_types_a_level() -> None:
    """Docstrings may: they speak of the number as it is, and those that are helps are held to it below."""
    typed = []
    for path in sorted(SOURCES.rglob("*.py")):
        tree = ast.parse(path.read_text())
        texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        typed += [
            f"{path.name}: {node.value}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in texts
            and TYPED_SHARE.search(node.value)
        ]  # fmt: skip
    assert not typed


def test_a_sentence_follows_its_level(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "in at least four of five cases" in class_reasons.power_sentence(1.0, None, UnitNames(), "a")
    monkeypatch.setattr(class_reasons, "POWER", 0.87)
    assert "in at least 87 % of cases" in class_reasons.power_sentence(1.0, None, UnitNames(), "a")
    assert "in 87 % of cases" in class_reasons.LittleNoticed(label="a", gap=3, notice=2, power=0.1).text


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("audits/feature/options.py", f"must detect, in {share_words(POWER)}, a model"),
        ("audits/feature/options.py", f"Fewer than {1 / MARK_LEVEL - 1:.0f} cannot reach a level of {MARK_LEVEL}."),
        ("audits/feature/options.py", f"Fewer than {1 / MARK_LEVEL - 1:.0f} decide nothing at {MARK_LEVEL}."),
        ("audits/classifier/options.py", f"for a single patient in {share_words(PASS_POWER)}."),
        ("audits/classifier/options.py", f"the verdict uses a list at {VERDICT_LEVEL}."),
        ("audits/synthetic/options.py", f"the verdict uses a list at {VERDICT_LEVEL}."),
        ("images/alterations/options.py", f"leaves out at most {100 * MOST_NEW_PEOPLE:g} % of new patients"),
    ],
)
def test_a_help_names_the_level_that_decides(path: str, words: str) -> None:
    """The help of an option is the text below its field, which reads no number."""
    assert words in " ".join((SOURCES / path).read_text().split())
