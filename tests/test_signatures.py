"""What an editor and a notebook show of the public functions: every keyword, its type and its default."""

import inspect
import sys
from pathlib import Path
from types import ModuleType

import jedi
import numpy as np
import pandas as pd
import pytest

import memorisk
from memorisk import scores, statistics
from memorisk.audits.classifier.options import ClassifierOptions
from memorisk.audits.filter.options import FilterOptions
from memorisk.audits.synthetic.options import synthetic_options
from memorisk.runs.errors import InputError
from memorisk.runs.settings import setting_names, settings_of

ROOT = Path(__file__).resolve().parents[1]


def test_the_stub_is_what_the_functions_say() -> None:
    sys.path.insert(0, str(ROOT / "recipes"))
    try:
        import signatures
    finally:
        sys.path.pop(0)
    for file, text in signatures.written().items():
        assert file.read_text(encoding="utf-8") == text, "run python recipes/signatures.py"


def test_an_editor_completes_keywords_and_shows_their_defaults(tmp_path: Path) -> None:
    project = jedi.Project(tmp_path, added_sys_path=[str(ROOT / "src")])
    code = "import memorisk\nfound = memorisk.audit_classifier('scans/', out='runs/a', pla"
    completed = [c.name_with_symbols for c in jedi.Script(code, project=project).complete() if c.name.endswith("=")]
    assert completed == ["placebo="]
    code = "import memorisk\nmemorisk.filter_synthetic('scans/', 'made/', 'out', "
    (shown,) = jedi.Script(code, project=project).get_signatures()[:1]
    assert "miss_rate: float=0.05" in [p.to_string() for p in shown.params]


def test_a_notebook_shows_the_same_keywords() -> None:
    parameters = inspect.signature(memorisk.audit_classifier).parameters
    assert list(parameters)[:4] == ["images", "out", "progress", "dry_run"]
    assert set(setting_names(ClassifierOptions)) == set(parameters) - {"images", "out", "progress", "dry_run"}
    assert parameters["epochs"].default == ClassifierOptions().epochs
    code = "memorisk.audit_classifier('scans/', out='runs/a', intervene"
    completed = jedi.Interpreter(code, [{"memorisk": memorisk}]).complete()
    assert [c.name_with_symbols for c in completed] == ["intervene="]
    assert "level" in inspect.signature(memorisk.MemorizationWatch).parameters


@pytest.mark.parametrize("package", [scores, statistics])
def test_pure_parts_are_imported_from_their_package(package: ModuleType) -> None:
    for name in package.__all__:
        assert callable(getattr(package, name)), name
        assert name in dir(package)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = package.nothing


def test_pure_parts_take_lists_and_columns() -> None:
    a, b = [0.1, 0.9, 0.4], [0.2, 0.3, 0.8]
    table = pd.DataFrame({"a": a, "b": b}, index=[7, 8, 9])
    for function in (statistics.auc, statistics.spearman):
        wanted = function(np.array(a), np.array(b))
        assert np.array_equal(function(a, b), wanted)
        assert np.array_equal(function(table["a"], table["b"]), wanted)
    assert statistics.holm(a).tolist() == statistics.holm(table["a"]).tolist()
    assert (
        scores.cross_entropy([[1.0, 2.0]], [0]).tolist() == scores.cross_entropy(np.array([[1.0, 2.0]]), [0]).tolist()
    )


def test_settings_take_what_python_has() -> None:
    options = settings_of(
        ClassifierOptions, {"target": "w.safetensors", "seeds": [1, 2], "classes": 0, "intervene": "blur"}
    )
    assert (options.target, options.seeds, options.classes) == (Path("w.safetensors"), (1, 2), ("0",))
    assert settings_of(FilterOptions, {"threshold": 0.5, "detector": Path("d")}).threshold == ("0.5",)
    assert synthetic_options({"detector": None, "review": "review.csv", "features": Path("f.npy")}).features == "f.npy"
    with pytest.raises(InputError, match=r"Did you mean .models"):
        settings_of(ClassifierOptions, {"modles": 4})
