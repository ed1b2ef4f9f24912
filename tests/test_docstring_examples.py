"""Examples in docstrings run and print what they show."""

import doctest
import importlib
import importlib.util
import pkgutil

import pytest

import memorisk

ROOMS = ("runs", "scores", "statistics", "images", "models", "training", "report", "audits")
MODULES = [
    module.name
    for room in ROOMS
    for module in pkgutil.walk_packages([f"{memorisk.__path__[0]}/{room}"], f"memorisk.{room}.")
]


@pytest.mark.parametrize("room", ROOMS)
def test_examples_print_what_they_show(room: str) -> None:
    finder, examples = doctest.DocTestFinder(), 0
    for name in MODULES:
        if not name.startswith(f"memorisk.{room}."):
            continue
        source = importlib.util.find_spec(name).loader.get_source(name)
        if ">>>" not in source:  # most modules, some of which need packages of an extra
            continue
        for test in finder.find(importlib.import_module(name)):
            runner = doctest.DocTestRunner(verbose=False)
            report: list[str] = []
            runner.run(test, out=report.append)
            assert not runner.failures, "".join(report)
            examples += len(test.examples)
    assert examples
