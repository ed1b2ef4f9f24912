"""Runs to look at: synthetic sets of digits with hostile ids, copies planted; a server on loopback; a browser."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import memorisk
from tests.audits.synthetic.making import parts
from tests.report.chromium import Chromium, find_chromium

pytest.importorskip("starlette", reason="the extra view is not installed")
pytest.importorskip("uvicorn", reason="the extra view is not installed")

ATTACK = "document.title='hacked'"
HOSTILE = [f"<script>{ATTACK}</script>", f'"><img src=x onerror="{ATTACK}">', "{{7*7}}", "left\u202egnp"]
SETTINGS = {"detector": "pixels", "plants": 0, "one_image_per_patient": True}


def write_sets(root: Path) -> dict[str, Path]:
    """Tables of digits with hostile ids: of generated ones, four are training images, and one of these stands twice."""
    train, held, made = parts(n_train=48, n_held=40, n_synthetic=40)
    made = np.concatenate([train[:3], train[:1], train[3:4, :, ::-1], made[5:]])
    tables = {}
    for name, images in (("train", train), ("held", held), ("made", made)):
        (root / name).mkdir(parents=True)
        rows = []
        for row, image in enumerate(images):
            Image.fromarray(image[..., 0]).save(root / name / f"{row}.png")
            rows.append({"path": f"{name}/{row}.png", "image": f"{name}{row}{HOSTILE[row % len(HOSTILE)]}"})
        tables[name] = root / f"{name}.csv"
        pd.DataFrame(rows).to_csv(tables[name], index=False)
    return tables


def audited(sets: dict[str, Path], out: Path, **settings) -> memorisk.Result:
    given = SETTINGS | {"held_out": sets["held"], "out": out} | settings
    result = memorisk.audit_synthetic(sets["train"], sets["made"], **given)
    assert isinstance(result, memorisk.Result)
    return result


@pytest.fixture(scope="session")
def _audited_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Path], Path]:
    root = tmp_path_factory.mktemp("viewed")
    sets = write_sets(root / "sets")
    audited(sets, root / f"<img src=x onerror={ATTACK}>")
    return sets, next(path for path in root.iterdir() if path.name != "sets")


@pytest.fixture
def sets(_audited_once: tuple[dict[str, Path], Path]) -> dict[str, Path]:
    return _audited_once[0]


@pytest.fixture
def run(_audited_once: tuple[dict[str, Path], Path], tmp_path: Path) -> Path:
    """A finished run of its own, whose name is hostile."""
    import shutil

    made = _audited_once[1]
    return Path(shutil.copytree(made, tmp_path / "runs" / made.name))


@pytest.fixture
def serving() -> Iterator[Callable[[Path], str]]:
    """Starts a server for a folder in a thread, and gives the link that it prints."""
    import uvicorn

    from memorisk.view import server

    running: list[tuple[uvicorn.Server, threading.Thread]] = []
    links: list[str] = []
    listens = threading.Event()

    class Noted(uvicorn.Server):
        """Notes itself, so that the test can end it."""

        def run(self, sockets=None) -> None:
            running.append((self, threading.current_thread()))
            listens.set()
            super().run(sockets)

    def start(folder: Path) -> str:
        listens.clear()
        thread = threading.Thread(target=server.serve, args=([folder],), kwargs={"port": 0, "say": links.append})
        thread.start()
        assert listens.wait(60)
        return links[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uvicorn, "Server", Noted)
        yield start
    for one, thread in running:
        one.should_exit = True
        thread.join(30)


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium on this machine (apt-get install chromium)")
    with Chromium(path) as one:
        yield one
