"""Fixtures that every room's tests share."""

import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests.drawings import whole_drawings, words_of_drawing

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "data"
CASES = SHARED.with_name("cases")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # bytes are compared, and another number of threads rounds otherwise
sys.path.insert(0, str(ROOT))  # worker processes import functions of tests, and no current folder of `python -m pytest`

# How long an input takes to draw says something of the machine and its load, and nothing of memorisk.
settings.register_profile("memorisk", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("memorisk")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Decoded images and settings of the tests go to folders of their own, not to the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMORISK_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


def looked_at_nothing(evidence: Any, *_: Any) -> Any:
    """Second look at no image; it has a threshold, so that it is no doubt."""
    from memorisk.audits.comparison.second_look import SecondLook
    from memorisk.images.copies.alignment import WINDOWS
    from memorisk.statistics.copies.alignments import alignment_cut

    if evidence.sets.held is None:
        return None
    strengths = np.outer(np.linspace(0, 0.5, 100), WINDOWS)
    cut, nothing = alignment_cut(strengths, strengths, trials=1), strengths[:0]
    return SecondLook(cut, nothing, nothing, (), 0, 0, np.zeros(evidence.plants.n, bool), {})


@pytest.fixture(scope="session", autouse=True)
def _without_second_look() -> Iterator[None]:
    """No second look, which would lay thousands of pairs on one another in a hundred small audits.

    `tests.audits.synthetic.test_second_look` and the commands that tests start as processes take it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memorisk.audits.synthetic.analysis.look_again", looked_at_nothing)
        yield


@pytest.fixture(scope="session", autouse=True)
def _without_lines_of_figures() -> Iterator[None]:
    """Figures are not drawn to their end, which takes a tenth of a small audit; their texts stay."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memorisk.report.figures.sheet.Sheet.svg", words_of_drawing)
        yield


@pytest.fixture(scope="module")
def drawn() -> Iterator[None]:
    """Figures are drawn to their end, for tests that look at their lines or at pages in a browser."""
    with whole_drawings():
        yield


@pytest.fixture(scope="session", autouse=True)
def _without_search_for_models() -> Iterator[None]:
    """No search for the number of models with which an audit could pass, which is most of a small audit of patients.

    `tests.audits.classifier.test_rehearsal` and the commands that tests start as processes take it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memorisk.audits.classifier.planning.rehearsal._search", lambda *_, **__: [])
        yield


@pytest.fixture(scope="session", autouse=True)
def _with_one_whitening_per_set() -> Iterator[None]:
    """The whitening of the same thumbnails is fitted once: hundreds of tests audit the same few images."""
    from memorisk.images.copies import near_copies

    fit, fitted = near_copies.fit_whitening, {}

    def kept(*sets: np.ndarray) -> Any:
        key = tuple((small.shape, hashlib.sha256(small.tobytes()).digest()) for small in sets)
        if key not in fitted:
            fitted[key] = fit(*sets)
        return fitted[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(near_copies, "fit_whitening", kept)
        yield


@pytest.fixture(scope="session", autouse=True)
def _without_waiting_for_the_disk() -> Iterator[None]:
    """No flush of each of thousands of small files to the disk, which takes milliseconds.

    Tests kill processes, not machines: what a killed process wrote stays. Commands that tests start as processes flush.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _without_lines_of_progress() -> Iterator[None]:
    """No line of progress on standard error, where a slow machine takes longer than the seconds between two."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memorisk.cli.show.common.LOG_SECONDS", 3600.0)
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real image sets beside the project; tests that need it are skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("the real image sets (../shared/data) are not beside this checkout")
    return SHARED


@pytest.fixture(scope="session")
def shared_cases() -> Path:
    """The folder of small inputs that once failed; tests that need it are skipped where it is absent."""
    if not CASES.is_dir():
        pytest.skip("the small inputs (../shared/cases) are not beside this checkout")
    return CASES
