"""A review written by the viewer: kept at once, undone, taken up by the audit; and the verdict it is said to give."""

import stat
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memorisk.audits.comparison.review_files import CONFIRM, DISMISS
from memorisk.audits.run_images import RunImages
from memorisk.audits.synthetic.foreseen import OPEN
from memorisk.runs.errors import InputError
from memorisk.runs.folder import read_config
from memorisk.view.pairs import FilterRun, SyntheticRun, unturned
from memorisk.view.review import FILE, PairReview
from tests.view.conftest import audited

NO = ("dismiss", "Dr. A", "another person")


def opened(run: Path) -> SyntheticRun:
    return SyntheticRun(run, read_config(run), "/run/x")


def test_an_answer_is_kept_at_once_and_privately(run: Path) -> None:
    review = PairReview(run)
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    review.judge(review.keys[0], CONFIRM, "", "")
    review.judge(review.keys[1], *NO)
    assert stat.S_IMODE((run / FILE).stat().st_mode) == 0o600
    again = PairReview(run)
    assert [again.answer(0), again.answer(1)] == [review.answer(0), review.answer(1)]
    assert (again.progress.confirmed, again.progress.dismissed) == (1, 1)
    assert again.last is not None
    assert (again.last.reason, again.reviewer) == ("another person", "Dr. A")
    assert {name: (run / name).read_bytes() for name in before} == before


def test_undo_takes_back_one_answer_after_the_other(run: Path) -> None:
    review = PairReview(run)
    for place, verdict in ((2, CONFIRM), (0, CONFIRM), (2, DISMISS)):
        review.judge(review.keys[place], verdict, "A", "why")
    again = PairReview(run)  # as after a new start
    assert again.undo() == review.keys[2]
    assert again.answer(2) is None
    assert again.undo() == review.keys[0]
    assert again.undo() is None
    assert not (run / FILE).exists()


def test_an_answer_needs_what_the_audit_asks_for(run: Path) -> None:
    review = PairReview(run)
    for given in ((review.keys[0], DISMISS, "A", ""), (review.keys[0], DISMISS, " ", "why"), ("none", CONFIRM, "", ""),
                  (review.keys[0], "perhaps", "A", "why")):  # fmt: skip
        with pytest.raises(InputError):
            review.judge(*given)
    assert not (run / FILE).exists()


def test_what_somebody_wrote_by_hand_is_taken_over_and_left_alone(run: Path) -> None:
    path = run / "review.csv"
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    table.loc[0, ["verdict", "by", "reason"]] = ["Dismiss", "B", "by hand"]
    table.to_csv(path, index=False)
    written = path.read_bytes()
    review = PairReview(run)
    assert review.answer(review.place_of[table["pair"][0]]).reason == "by hand"
    review.judge(review.keys[1], CONFIRM, "", "")
    assert path.read_bytes() == written
    assert set(pd.read_csv(run / FILE, dtype=str)["pair"]) == {table["pair"][0], review.keys[1]}


def test_two_viewers_of_one_run_lose_no_answer(run: Path) -> None:
    one, other = PairReview(run), PairReview(run)
    one.judge(one.keys[0], CONFIRM, "", "")
    other.judge(other.keys[1], *NO)
    one.judge(one.keys[2], *NO)
    assert PairReview(run).progress.open == len(one) - 3


def test_the_audit_takes_the_review_and_gives_the_verdict_that_was_said(
    run: Path, sets: dict[str, Path], tmp_path: Path
) -> None:
    seen = opened(run)
    assert len(seen.review) > 3
    for place in range(len(seen.review)):
        seen.review.judge(seen.review.keys[place], *((CONFIRM, "", "") if place == 1 else NO))
    told = seen.foresight.verdict(
        seen.judged(CONFIRM, seen.review.answers()), seen.judged(DISMISS, seen.review.answers())
    )
    result = audited(sets, tmp_path / "again", review=run / FILE)
    assert told.status == result.status == "fail"
    said = result.tables["review"]
    keys = set(said.loc[said["verdict"] == CONFIRM, "pair"])
    assert keys == {seen.review.keys[1]}
    assert set(said.loc[said["verdict"] == DISMISS, "pair"]) == set(seen.review.keys) - keys


def test_the_same_folder_takes_its_own_review(run: Path, sets: dict[str, Path]) -> None:
    review = PairReview(run)
    for key in review.keys:
        review.judge(key, *NO)
    audited(sets, run, review=run / FILE)
    seen = opened(run)
    assert seen.review.progress.open == 0 or seen.review.progress.dismissed == len(review)
    exact = seen.foresight.verdict([], seen.judged(DISMISS, seen.review.answers()))
    assert exact.status == seen.foresight.verdict([], seen.judged(DISMISS, seen.review.before)).status != OPEN


def test_a_verdict_that_dismissals_may_change_is_not_guessed(run: Path) -> None:
    seen = opened(run)
    for key in seen.review.keys:
        seen.review.judge(key, *NO)
    found = seen.foresight.verdict([], seen.judged(DISMISS, seen.review.answers()))
    assert found.status in (OPEN, "fail")
    none = seen.foresight.verdict([], [])
    assert list(none.why) == pd.read_json(run / "verdict.json", typ="series")["why"]


def test_pixels_turned_by_an_orientation_are_turned_back() -> None:
    import numpy as np

    from memorisk.images.copies.near_copies import ORIENTATIONS, orientations

    image = np.arange(6 * 4 * 3, dtype=np.uint8).reshape(6, 4, 3)
    for name, turned in zip(ORIENTATIONS[:8], orientations(image), strict=True):
        np.testing.assert_array_equal(unturned(turned, name), image)


def test_the_mirrored_copy_is_laid_on_its_source(run: Path) -> None:
    import numpy as np

    seen = opened(run)
    mirrored = next(place for place in range(len(seen.review)) if seen.review.images(place)[0].startswith("made4"))
    assert not seen.difference(mirrored).any()
    assert [pane.title for pane in seen.panes(mirrored)][:4] == [
        "Synthetic image", "Training image, laid on it", "Difference", "Training image, as it is",
    ]  # fmt: skip
    made, laid = seen.both(mirrored)
    np.testing.assert_array_equal(made, laid)


def test_thumbnails_are_private_and_never_those_of_a_redacted_run(
    run: Path, sets: dict[str, Path], tmp_path: Path
) -> None:
    images = opened(run).images
    assert images.thumbnail("training", 0) == images.thumbnail("training", 0)
    assert stat.S_IMODE((run / "thumbnails").stat().st_mode) == 0o700
    audited(sets, tmp_path / "redacted", redact=True)
    hidden = opened(tmp_path / "redacted").images
    with pytest.raises(InputError, match="redact"):
        hidden.thumbnail("training", 0)
    assert not (tmp_path / "redacted" / "thumbnails").exists()


def test_the_pairs_of_a_filter_are_looked_at_and_not_judged(sets: dict[str, Path], tmp_path: Path) -> None:
    import numpy as np
    from starlette.testclient import TestClient

    import memorisk
    from memorisk.view.app import create_app

    memorisk.filter_synthetic(sets["train"], sets["made"], tmp_path / "run", detector="pixels", threshold=(0.0,))
    seen = FilterRun(tmp_path / "run", read_config(tmp_path / "run"), "/run/x")
    table = pd.read_parquet(tmp_path / "run" / "per_image.parquet")
    left_out = int((~table["kept"]).sum())
    assert left_out
    reasons = [seen.pairs.text(place, "found_by") for place in range(len(seen.pairs))]
    assert all(reason.startswith("left out") for reason in reasons[:left_out])
    assert set(reasons[left_out:]) <= {"kept"}
    copies = [p for p in range(left_out) if seen.pairs.images(p)[0].startswith(("made0", "made3<"))]
    assert copies
    assert not any(seen.difference(place).any() for place in copies if "pixels" in reasons[place])
    np.testing.assert_array_equal(*seen.both(0))

    client = TestClient(create_app([tmp_path / "run"]))
    key = client.get("/").text.split('href="/run/')[1].split('"')[0]
    assert f"{left_out} images left out and {len(table) - left_out} kept" in client.get(f"/run/{key}").text
    page = client.get(f"/run/{key}/pair/0")
    assert page.status_code == 200
    assert "Confirm" not in page.text
    assert client.post(f"/run/{key}/judge", json={"pair": "", "verdict": "confirm"}).status_code == 400


def test_images_beside_a_table_are_found_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "export" / "scans").mkdir(parents=True)
    Image.fromarray(np.full((8, 8), 7, dtype=np.uint8)).save(tmp_path / "export" / "scans" / "a.png")
    pd.DataFrame({"path": ["a.png"]}).to_csv(tmp_path / "export" / "t.csv", index=False)
    run = tmp_path / "runs" / "set"
    run.mkdir(parents=True)
    config = {"train": "export/t.csv", "image_root": "export/scans", "out": "runs/set"}
    monkeypatch.chdir("/")
    images = RunImages(run, config, {"training": "train"})
    assert images.reason("training") == ""
    assert images.part("training").pixels(0).max() == 7


def test_answers_of_two_viewers_are_all_kept(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second viewer answers while the first one is between reading and writing."""
    first, second = PairReview(run), PairReview(run)
    other = threading.Thread(target=second.judge, args=(second.keys[1], CONFIRM, "B", ""))
    write = first._write

    def written_late() -> None:
        other.start()
        other.join(0.5)  # it waits for the file, or writes it now
        write()

    monkeypatch.setattr(first, "_write", written_late)
    first.judge(first.keys[0], *NO)
    other.join()
    again = PairReview(run)
    assert (again.progress.confirmed, again.progress.dismissed) == (1, 1)


def test_what_a_killed_viewer_left_is_removed(run: Path) -> None:
    left = run / f".{FILE}.abcdefgh.part"
    left.write_text("half")
    review = PairReview(run)
    review.judge(review.keys[0], *NO)
    assert not left.exists()
