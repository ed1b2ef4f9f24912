"""Who is let in: the browser with the link, on loopback, from a page of the server; and what every answer forbids."""

from pathlib import Path
from unittest import mock

import pytest
from starlette.testclient import TestClient

import memorisk
from memorisk.view.app import create_app
from memorisk.view.guard import Guard

PORT, TOKEN = 8123, "the-token-of-the-link"
HOME = f"http://127.0.0.1:{PORT}"


@pytest.fixture
def client(run: Path) -> TestClient:
    """A browser that has not opened the link yet."""
    return TestClient(Guard(create_app([run]), PORT, TOKEN), base_url=HOME, follow_redirects=False)


@pytest.fixture
def known(client: TestClient) -> TestClient:
    """A browser that has."""
    assert client.get(f"/?token={TOKEN}").status_code == 303
    return client


def links(client: TestClient) -> str:
    page = client.get("/").text
    return page.split('href="/run/')[1].split('"')[0]


def test_the_link_gives_a_cookie_that_scripts_and_other_sites_cannot_use(client: TestClient) -> None:
    answer = client.get(f"/?token={TOKEN}")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"].lower()
    assert TOKEN not in cookie
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert client.get("/").status_code == 200


@pytest.mark.parametrize(
    "path", ["/", "/?token=", "/?token=another", "/compare", "/static/view.js", "/run/0123456789ab"]
)
def test_nobody_without_the_token_sees_anything(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 403
    assert "<" not in answer.text


def test_a_cookie_of_another_server_lets_nobody_in(client: TestClient) -> None:
    client.cookies.set(f"memorisk-{PORT}", TOKEN)
    assert client.get("/").status_code == 403


@pytest.mark.parametrize("host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", f"127.0.0.1:{PORT + 1}", ""])
def test_another_host_is_refused(known: TestClient, host: str) -> None:
    assert known.get("/", headers={"host": host}).status_code == 403


@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example", f"https://127.0.0.1:{PORT}", "http://127.0.0.1:1"]
)
def test_a_page_of_another_origin_cannot_write(known: TestClient, run: Path, origin: str | None) -> None:
    key = links(known)
    headers = {} if origin is None else {"origin": origin}
    assert known.post(f"/run/{key}/undo", json={}, headers=headers).status_code == 403
    assert known.post(f"/run/{key}/undo", json={}, headers={"origin": HOME}).status_code == 400
    assert not (run / "reviewed.csv").exists()


@pytest.mark.parametrize("path", ["/", "/run/none", "/static/view.css", "/static/../app.py", "/?token=another"])
def test_every_answer_forbids_scripts_and_fetches_from_elsewhere(known: TestClient, path: str) -> None:
    answer = known.get(path)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("part", ["..", "%2e%2e%2f", "training%2f..", "config", "held-out-2"])
@pytest.mark.parametrize("row", ["0", "99999", "-1", "..%2f..%2fconfig.yaml"])
def test_an_address_names_rows_and_no_files(known: TestClient, part: str, row: str) -> None:
    assert known.get(f"/run/{links(known)}/image/{part}/{row}").status_code == 404


def test_an_image_is_that_of_its_row(known: TestClient, sets: dict[str, Path]) -> None:
    import io

    import numpy as np
    from PIL import Image

    answer = known.get(f"/run/{links(known)}/image/training/3")
    assert answer.headers["content-type"] == "image/png"
    shown = np.asarray(Image.open(io.BytesIO(answer.content)))
    np.testing.assert_array_equal(shown, np.asarray(Image.open(sets["train"].parent / "train" / "3.png")))


@pytest.mark.parametrize("library", ["starlette", "uvicorn"])
def test_without_the_extra_one_line_names_it(
    library: str, run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    import memorisk.view as package
    from memorisk.cli.main import main

    monkeypatch.setattr(memorisk, "view", package)  # set back afterwards: an import anew sets it to another package
    with mock.patch.dict(sys.modules):  # no module that is imported in here stays: its classes are not those of others
        for name in [name for name in sys.modules if name.startswith(("memorisk.view", "starlette", "uvicorn"))]:
            del sys.modules[name]
        sys.modules[library] = None  # pyright: ignore[reportArgumentType]
        assert main(["view", str(run)]) == 2
    said = capsys.readouterr().err
    assert "memorisk[view]" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("place", ["nowhere", "."])
def test_a_place_without_runs_is_told_in_one_line(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from memorisk.cli.main import main

    monkeypatch.chdir(tmp_path)
    assert main(["view", place]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_answers_are_sent_at_once() -> None:
    """asyncio turns Nagle's algorithm off for sockets that say TCP; else each answer waits 40 ms to be acknowledged."""
    import socket

    from memorisk.view.server import listening_socket

    with listening_socket(0) as listener:
        assert listener.proto == socket.IPPROTO_TCP
