"""YAML: what it means is counted before it is made, no key stands twice, and what is written is read back."""

from pathlib import Path

import pytest
import yaml

from memorisk.runs.errors import InputError
from memorisk.runs.yaml_files import dump_yaml, parse_yaml, read_yaml_text


def laughs(first: str, between: str) -> str:
    """Nine levels of aliases, nine a level."""
    lines = [f"a0: &a0 {first}"]
    for k in range(1, 10):
        lines.append(f"a{k}: &a{k} " + between.format(", ".join([f"*a{k - 1}"] * 9)))
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [laughs("[x]", "[{}]"), laughs("{x: 1}", "{{<<: [{}], y: 1}}"), laughs("x", "[{}]")],
    ids=["lists", "merges", "text"],
)
def test_aliases_of_aliases_are_counted_not_made(text: str) -> None:
    """They never ended."""
    with pytest.raises(yaml.YAMLError, match="expand to more than 400,000 values"):
        parse_yaml(text)


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {b: [*a]}"])
def test_what_contains_itself(text: str) -> None:
    with pytest.raises(yaml.YAMLError, match="contains itself"):
        parse_yaml(text)


def test_aliases_as_studies_have_them() -> None:
    base = "base: &base {model: small_cnn, epochs: 3}\n"
    found = parse_yaml(base + "sets:\n" + "".join(f"  s{k}: {{<<: *base, seed: {k}}}\n" for k in range(200)))
    assert found["sets"]["s7"] == {"model": "small_cnn", "epochs": 3, "seed": 7}


@pytest.mark.parametrize("value", ["1e5", "3e-4", "007", "null", "yes", "2026-01-01", 3e-4, 1e300, None, True])
def test_what_is_written_is_read_back(value: object) -> None:
    assert parse_yaml(dump_yaml({"x": value, "y": [value]})) == {"x": value, "y": [value]}


def test_a_file_that_is_longer_than_any_settings(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(b"# " + b"x" * (1 << 20))
    for path in (tmp_path / "x.yaml", Path("/dev/zero")):
        with pytest.raises(InputError, match="is longer than 1,048,576 bytes"):
            read_yaml_text(path)
