"""The page of a check of images: sets of copies side by side, chosen by what differs; what was not read, and labels."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from starlette.testclient import TestClient

from memorisk.audits.image_set.options import CheckOptions
from memorisk.audits.image_set.run import check_set
from memorisk.audits.run_images import CLASSIFIED
from memorisk.runs.errors import InputError
from memorisk.runs.folder import read_config
from memorisk.view.app import create_app
from memorisk.view.copies import ALONE_PER_PAGE, CheckRun, CopyFilters
from tests.audits.image_set.making import picture, write_set
from tests.report.chromium import Chromium
from tests.view.conftest import ATTACK, HOSTILE


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A check with copies of every kind, whose files, labels, patients and splits are hostile."""
    root = tmp_path_factory.mktemp("checked")
    table = pd.read_csv(write_set(root / "set"))
    for row in range(8):
        path = root / "set" / str(table["path"][row])
        name = HOSTILE[row % len(HOSTILE)].replace("/", "\u2044")
        table.loc[row, "path"] = f"images/{row}{name}.png"
        path.rename(root / "set" / str(table["path"][row]))
    for name, text in (("label", "<svg/onload={}>"), ("patient", '"><img src=x onerror={}>'), ("split", "'>{}<b>")):
        table[name] = [f"{value}{text.format(ATTACK)}" for value in table[name]]
    table.to_csv(root / "set" / "table.csv", index=False)
    out = root / "runs" / f"<img src=x onerror={ATTACK}>"
    check_set(str(root / "set" / "table.csv"), CheckOptions(turned=True, skip_unreadable=False), out=out)
    return out


@pytest.fixture
def seen(check: Path) -> CheckRun:
    return CheckRun(check, read_config(check), "/run/x")


def address(client: TestClient) -> str:
    return "/run/" + client.get("/").text.split('href="/run/')[1].split('"')[0]


def test_sets_are_those_of_the_table_and_chosen_by_what_differs(seen: CheckRun, check: Path) -> None:
    table = pd.read_parquet(check / "tables" / "sets.parquet")
    found = seen.sets(seen.chosen(CopyFilters()))
    assert [[one.path for one in each.images] for each in found] == [
        rows["path"].tolist() for _, rows in table.groupby("set")
    ]
    assert [each.n_images for each in found] == table.groupby("set").size().tolist()
    for role in ("label", "group", "split"):
        chosen = {each.number for each in seen.sets(seen.chosen(CopyFilters(across=role)))}
        assert chosen == set(table.loc[table["across"].str.contains(role), "set"])
        assert chosen
    near = seen.sets(seen.chosen(CopyFilters(kind="near")))
    assert {each.what for each in near} == {"nearly the same"}
    assert all(0.9 < float(each.similarity) <= 1 for each in near)


def test_a_picture_is_that_of_its_path(seen: CheckRun, check: Path) -> None:
    import io

    client = TestClient(create_app([check]))
    at = address(client)
    for each in seen.sets(seen.chosen(CopyFilters())):
        for one in each.images:
            shown = client.get(one.address.replace("/run/x", at))
            pixels = np.asarray(Image.open(io.BytesIO(shown.content)))
            np.testing.assert_array_equal(
                pixels, np.asarray(Image.open(check.parent.parent / "set" / one.path)), one.path
            )


def test_a_picture_that_changed_since_the_check_is_refused(tmp_path: Path) -> None:
    table = write_set(tmp_path / "set")
    check_set(str(table), CheckOptions(skip_unreadable=False), out=tmp_path / "run")
    seen = CheckRun(tmp_path / "run", read_config(tmp_path / "run"), "/run/x")
    part, row = seen.images.part(CLASSIFIED), 0
    shown = part.pixels(row)
    Image.fromarray(255 - shown[..., 0]).save(part.file(row))
    with pytest.raises(InputError, match="the image has changed since the run read it"):
        part.pixels(row)


def test_the_run_tells_its_problems_what_was_not_read_and_labels(check: Path) -> None:
    client = TestClient(create_app([check.parent]))
    listed = client.get("/").text
    assert "Are the images fit to be audited?" in listed
    assert "problems found" in listed
    page = client.get(address(client)).text
    for words in ("Unreadable: 1.", "images/broken.png", "Large enough to be audited", "4 sets of equal images"):
        assert words in page
    both = client.get(f"/compare?run={address(client)[5:]}&run={address(client)[5:]}").text
    assert "Sets of equal images across labels: 1." in both


def test_a_large_set_is_paged_alone_and_many_sets_too(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    for n in range(ALONE_PER_PAGE + 3):
        Image.fromarray(picture(0, 32)).save(tmp_path / "set" / f"same{n:03}.png")
    for n in range(1, 30):
        for twin in "ab":
            Image.fromarray(picture(n, 32)).save(tmp_path / "set" / f"{n:03}{twin}.png")
    check_set(str(tmp_path / "set"), CheckOptions(), out=tmp_path / "run")
    client = TestClient(create_app([tmp_path / "run"]))
    at = f"{address(client)}/copies"
    pages = [client.get(f"{at}?page={page}").text for page in (1, 2, 3)]
    assert [page.count('class="copies"') for page in pages] == [12, 12, 6]
    assert f"All {ALONE_PER_PAGE + 3} images of this set" in "".join(pages)
    number = int("".join(pages).split('href="?set=')[1].split('"')[0])
    alone = [client.get(f"{at}?set={number}&page={page}").text.count("<img") for page in (1, 2, 99)]
    assert alone == [ALONE_PER_PAGE, 3, 3]
    assert "badge" not in pages[0], "without ids nobody knows whose images these are"
    assert client.get(f"{at}?set=31").status_code == 404
    assert client.get(f"{at}?set=x&page=-1&across=<b>&kind=%00").status_code == 200


def test_a_set_without_copies_and_a_redacted_check(check: Path, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    for n in range(3):
        Image.fromarray(picture(n)).save(tmp_path / "set" / f"{n}.png")
    check_set(str(tmp_path / "set"), CheckOptions(), out=tmp_path / "sound")
    client = TestClient(create_app([tmp_path / "sound"]))
    assert "no problems" in client.get("/").text
    assert "No two images are equal" in client.get(f"{address(client)}/copies").text

    check_set(str(check.parent.parent / "set" / "table.csv"), CheckOptions(redact=True), out=tmp_path / "redacted")
    client = TestClient(create_app([tmp_path / "redacted"]))
    page = client.get(address(client)).text
    assert "1 image could not be read" in page
    assert "broken.png" not in page
    for path in ("copies", "image/images/0", "image/images/0?small=1"):
        assert client.get(f"{address(client)}/{path}").status_code == 404
    assert not (tmp_path / "redacted" / "thumbnails").exists()


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_shows_every_picture_and_runs_no_name(
    browser: Chromium, serving: Callable[[Path], str], check: Path, width: int
) -> None:
    link = serving(check.parent)
    home = link.split("/?")[0]
    browser.open(link)
    key = browser.evaluate("document.querySelector('th a').getAttribute('href')")
    for path, sets in ((key, 0), (f"{key}/copies", 4), (f"{key}/copies?across=label", 2), (f"{key}/copies?set=1", 1)):
        browser.open(home + path, width=width)
        assert browser.evaluate("document.querySelectorAll('.sets > li').length") == sets, path
        assert browser.evaluate("document.images.length") == 2 * sets
        browser.evaluate("scrollTo(0, document.body.scrollHeight)")
        shown = "new Promise(done => setInterval(() => [...document.images].every(i => i.naturalWidth) && done(1), 20))"
        assert browser.evaluate(shown), path
        assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        assert browser.evaluate("document.title") != "hacked"
        assert browser.complaints() == []
        assert {url.split("/", 3)[2] for url in browser.requests()} == {home.split("/")[2]}
    browser.evaluate("[...document.links].find(link => link.textContent === 'All sets').click()")
    browser.await_load()
    assert browser.evaluate("document.querySelectorAll('.sets > li').length") == 4
