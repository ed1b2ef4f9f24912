"""How memorisk is cited: the file that archives and GitHub read says what the package says."""

import tomllib
from pathlib import Path

import yaml

import memorisk

ROOT = Path(__file__).resolve().parents[1]


def test_the_citation_is_that_of_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"cff-version", "message", "title", "authors"} <= set(cited)  # what the format asks for
    assert cited["version"] == memorisk.__version__
    assert cited["license"] == project["license"]
    assert cited["keywords"] == project["keywords"]
    assert [one["name"] for one in cited["authors"]] == [one["name"] for one in project["authors"]]
    assert project["urls"]["Documentation"].startswith(cited["repository-code"])
