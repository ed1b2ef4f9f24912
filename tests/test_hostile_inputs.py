"""One input of each hostile kind through the command line; all of them are in `recipes/hostile_inputs.py`."""

import sys
from collections.abc import Iterator

import pytest

for _library in ("nibabel", "pydicom"):
    pytest.importorskip(_library)

from tests.hostile.inputs import hostile_inputs  # noqa: E402 - it makes files with both libraries
from tests.hostile.running import Runner  # noqa: E402
from tests.thorough import thorough  # noqa: E402

INPUTS = hostile_inputs()
KINDS = {hostile.kind: hostile for hostile in reversed(INPUTS)}

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    running = Runner()
    yield running
    running.close()


def test_there_are_hundreds_of_them():
    assert len(INPUTS) >= 300


FEW = {*sorted(KINDS)[::16]} - {"BMP: bomb"}  # which takes seconds; CI runs all kinds


@pytest.mark.parametrize("kind", [kind if kind in FEW else thorough(kind) for kind in sorted(KINDS)])
def test_the_first_of_a_kind(runner: Runner, kind: str):
    outcome = runner.run(KINDS[kind])
    assert not outcome.breaches(KINDS[kind]), outcome
