"""The map of docs/architecture.md holds: rooms, packages, modules and the words of the papers."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src" / "memorisk"
MAP = (ROOT / "docs" / "architecture.md").read_text("utf-8")
GLOSSARY = (ROOT / "docs" / "papers-words.md").read_text("utf-8")
WORDS = {
    words: module
    for row in re.findall(r"^\| (.+) \|$", GLOSSARY, re.MULTILINE)
    for words, module in [row.split(" | ")[:2], row.split(" | ")[2:]]
    if module.startswith("`")
}


def test_the_map_is_short() -> None:
    assert len(MAP.splitlines()) <= 120


@pytest.mark.parametrize("words", WORDS)
def test_a_word_of_the_papers_is_in_its_module(words: str) -> None:
    module = SOURCES / f"{WORDS[words].strip('`').replace('.', '/')}.py"
    text = re.sub(r"[\s_-]+", " ", module.read_text("utf-8").lower())
    for word in re.sub(r"\(.*?\)", "", words).split(", "):
        stem = re.sub(r"[\s_-]+", " ", word.lower()).strip().rstrip("s")
        assert stem in text, f"{word} is not in {module.relative_to(SOURCES)}"


def test_the_papers_words_are_in_the_glossary() -> None:
    assert len(WORDS) > 48


def test_every_room_and_package_is_named_and_there() -> None:
    rooms = re.findall(r"^\| `(\w+)/` \|.*\| (.*) \|$", MAP, re.MULTILINE)
    assert {room for room, _ in rooms} == {p.parent.name for p in SOURCES.glob("*/__init__.py")}
    for room, cell in rooms:
        packages = {p.parent.name for p in (SOURCES / room).glob("*/__init__.py")}
        assert packages <= set(re.findall(r"`(\w+)`", cell)), room


def test_a_folder_holds_at_most_sixteen_modules() -> None:
    folders = Counter(file.parent for file in SOURCES.rglob("*.py") if file.name != "__init__.py")
    assert {folder.relative_to(SOURCES).as_posix(): n for folder, n in folders.items() if n > 16} == {}


def test_every_module_that_the_map_names_is_there() -> None:
    pages = MAP + GLOSSARY
    rooms = "|".join(p.parent.name for p in SOURCES.glob("*/__init__.py"))
    dotted = re.findall(rf"`((?:{rooms})(?:\.\w+)+)`", pages)
    paths = re.findall(rf"`((?:{rooms})/[\w/]+\.(?:py|html))`", pages)
    assert len(dotted) > 70
    missing = [name for name in paths if not (SOURCES / name).is_file()]
    for name in dotted:
        place = SOURCES / name.replace(".", "/")
        parent = place.parent.with_suffix(".py")  # a name of a module
        known = parent.is_file() and re.search(
            rf"^(?:def|class) {place.name}\b", parent.read_text("utf-8"), re.MULTILINE
        )
        missing += [] if place.is_dir() or place.with_suffix(".py").is_file() or known else [name]
    assert missing == []
