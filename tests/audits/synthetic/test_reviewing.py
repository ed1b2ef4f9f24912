"""What a person says of pairs: honoured by content, never overwritten, never taken for what it is not."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from memorisk.audits.comparison.review import pair_keys, read_review
from memorisk.audits.comparison.review_files import COLUMNS, write_review
from memorisk.audits.comparison.sets import Sets
from memorisk.audits.pseudonyms import Pseudonyms
from memorisk.audits.synthetic.run import audit_synthetic
from memorisk.cli.show.runs import show_outcome
from memorisk.report.result import Result
from memorisk.runs.errors import InputError
from tests.audits.synthetic.making import parts, store_of

COPIED = 16
NAMES = Pseudonyms(None)
PASSES = {"plants": 12, "recall": 0.2, "plant_kinds": ("exact", "flipped", "noised")}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMORISK_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def copied_sets(place: Path) -> Sets:
    """Sixteen patients copied with noise, one of them twice, one exactly."""
    train, held, synthetic = parts()
    moved = np.random.default_rng(5).integers(-6, 7, (COPIED + 1, 8, 8, 1))
    sources = [*range(COPIED), 0]
    synthetic[: COPIED + 1] = np.clip(train[sources].astype(int) + moved, 0, 255)
    farther = np.random.default_rng(6).integers(-9, 10, (8, 8, 1))
    synthetic[COPIED] = np.clip(synthetic[COPIED].astype(int) + farther, 0, 255)
    synthetic[COPIED + 1] = train[20]
    stores = [store_of(i, place, n) for i, n in ((train, "train"), (synthetic, "set"), (held, "held"))]
    return Sets(stores[0], stores[1], stores[2], 0, 0, frozenset(), ())


def audited(sets: Sets, out: str, **settings) -> Result:
    given = {"detector": "pixels", "plants": 0, "one_image_per_patient": True} | settings
    found = audit_synthetic(sets.train, sets.synthetic, held_out=sets.held, out=out, **given)
    assert isinstance(found, Result)
    return found


def fill(path: Path, **said: tuple[str, str, str]) -> pd.DataFrame:
    """Write a verdict, who and why beside synthetic images (their names with _ for -)."""
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    for image, answer in said.items():
        table.loc[table["synthetic_image"] == image.replace("_", "-"), ["verdict", "by", "reason"]] = answer
    table.to_csv(path, index=False)
    return table


def test_dismissed_pairs_list_nobody_and_the_next_image_is_looked_at(place: Path) -> None:
    sets = copied_sets(place)
    first = audited(sets, "first")
    listed = set(first.per_group.loc[first.per_group["listed"], "group"])
    assert {f"train-{row:04d}" for row in range(COPIED)} <= listed
    before = Path("first/review.csv").read_bytes()
    no = ("dismiss", "Dr. A", "another patient")
    fill(Path("first/review.csv"), set_0000=no, set_0003=no, set_0004=("Confirm", "Dr. A", ""), set_0017=no)
    filled = Path("first/review.csv").read_bytes()
    again = audited(sets, "first", review=Path("first/review.csv"))
    v, table = again.verdict, again.per_group.set_index("group")
    assert (v["n_dismissed"], v["n_dismissed_patients"], v["n_confirmed"]) == (3, 2, 1)
    assert not table.loc["train-0003", "listed"]
    assert not table.loc["train-0020", "listed"]
    assert table.loc["train-0000", "listed"]  # by the second copy, which lay behind the dismissed one
    assert table.loc["train-0000", "synthetic_image"] == "set-0016"
    others = listed - {"train-0000", "train-0003", "train-0020"}
    assert table.loc[sorted(others), "listed"].all()  # nobody else leaves the list
    assert table.loc["train-0004", "confirmed"]
    assert v["status"] == "fail"
    assert "a person confirmed 1 pair" in v["why"][0]  # reasons to fail come first; a dismissal is none
    (judged,) = [why for why in v["why"] if "3 pairs were dismissed by a person" in why]
    assert "1 is pixel-identical, 2 are nearly identical" in judged
    assert v["why"].index(judged) > 1
    assert v["n_certain_copies"] == 0  # the dismissed one had the very pixels
    assert Path("first/review.csv").read_bytes() == filled != before  # never overwritten
    assert "set-0016" in before.decode()  # singled out beside the nearer one, and asked about at once
    assert not Path("first/review-2.csv").exists()
    page = Path("first/report.html").read_text()
    assert "Dismissed by a person: 3" in page
    assert "another patient" in page
    assert (again.tables["review"]["verdict"] == "dismiss").sum() == 3


def test_a_pass_says_how_many_were_dismissed(place: Path) -> None:
    train, held, synthetic = parts()
    synthetic[4] = train[3]
    synthetic[4, 0, 0] ^= 3  # nearly identical, and no more
    stores = [store_of(i, place, n) for i, n in ((train, "train"), (synthetic, "set"), (held, "held"))]
    sets = Sets(stores[0], stores[1], stores[2], 0, 0, frozenset(), ())
    how = PASSES
    audited(sets, "run", **how)
    fill(Path("run/review.csv"), set_0004=("dismiss", "B", "a phantom, no patient"))
    again = audited(sets, "other", review=Path("run/review.csv"), **how)
    assert again.status == "pass", again.verdict["why"]
    assert "1 pair was dismissed by a person" in again.verdict["why"][0]
    assert "1 is nearly identical" in again.verdict["why"][0]
    carried = pd.read_csv("other/review.csv")
    assert (carried["verdict"] == "dismiss").sum() == 1
    bytes_of = {p.name: p.read_bytes() for p in Path("other").iterdir() if p.suffix in (".csv", ".json", ".html")}
    audited(sets, "other", review=Path("run/review.csv"), **how)
    assert all(Path("other", name).read_bytes() == data for name, data in bytes_of.items())


def test_many_nearly_identical_pairs_are_not_dismissed_by_a_word(place: Path) -> None:
    """Twenty look-alikes of training patients, and none of held-out ones; then as many of both."""
    train, held, synthetic = parts()
    for name, of_held in (("training", 0), ("both", 20)):
        made = synthetic.copy()
        made[:20], made[20 : 20 + of_held] = train[:20], held[:of_held]
        made[: 20 + of_held, 0, 0] ^= 3
        stores = [store_of(i, place, f"{name}-{n}") for i, n in ((train, "train"), (made, "set"), (held, "held"))]
        sets = Sets(stores[0], stores[1], stores[2], 0, 0, frozenset(), ())
        audited(sets, name, **PASSES)
        review = pd.read_csv(f"{name}/review.csv", dtype=str, keep_default_na=False)
        review[["verdict", "by", "reason"]] = ("dismiss", "B", "x")
        review.to_csv(f"{name}.csv", index=False)
        again = audited(sets, f"{name}-again", review=Path(f"{name}.csv"), **PASSES)
        assert again.verdict["n_dismissed_near"] == 20
        assert again.status == "undecided"
        doubted = [why for why in again.verdict["why"] if "dismissals do not explain this" in why]
        assert len(doubted) == (not of_held), again.verdict["why"]


def test_a_reviewed_list_stays_reviewed(place: Path) -> None:
    """Two nearly identical images of one training image are asked about at once, the more alike one first."""
    train, held, synthetic = parts()
    synthetic[4] = synthetic[5] = train[3]
    synthetic[4, 2:6, 2:6] ^= 7
    synthetic[5, 3, 3] ^= 3
    stores = [store_of(i, place, n) for i, n in ((train, "train"), (synthetic, "set"), (held, "held"))]
    sets = Sets(stores[0], stores[1], stores[2], 0, 0, frozenset(), ())
    audited(sets, "run", **PASSES)
    asked = pd.read_csv("run/review.csv", dtype=str, keep_default_na=False)
    nearly = asked[asked["found_by"].str.contains("nearly the same pixels")]
    assert nearly["synthetic_image"].tolist() == ["set-0005", "set-0004"]
    asked[["verdict", "by", "reason"]] = ("dismiss", "B", "a phantom, no patient")
    asked.to_csv("run/review.csv", index=False)
    again = audited(sets, "run", review=Path("run/review.csv"), **PASSES)
    assert again.verdict["n_near_train"] == 0
    assert not Path("run/review-2.csv").exists()


def test_dismissed_pairs_with_identical_pixels_never_pass(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, held, synthetic = parts()
    synthetic[4:8], train[9] = train[3:7], 0
    synthetic[8] = train[9]  # blank, and no copy
    stores = [store_of(i, place, n) for i, n in ((train, "train"), (synthetic, "set"), (held, "held"))]
    sets = Sets(stores[0], stores[1], stores[2], 0, 0, frozenset(), ())
    assert audited(sets, "run", **PASSES).status == "fail"
    no = ("dismiss", "B", "a phantom, no patient")
    fill(Path("run/review.csv"), set_0004=no, set_0005=no, set_0006=no, set_0007=no)
    for name, with_held in (("other", sets), ("alone", replace(sets, held=None))):
        again = audited(with_held, name, review=Path("run/review.csv"), **PASSES)
        v = again.verdict
        assert again.status == "undecided"
        assert (v["n_certain_copies"], v["n_dismissed_identical"], v["n_dismissed_identical_images"]) == (0, 4, 4)
        assert "4 are pixel-identical" in v["why"][0]
        at = next(i for i, why in enumerate(v["why"]) if "4 pairs with identical pixels were dismissed" in why)
        assert at == (1 if name == "other" else 2)
        assert any("the set without these images" in way for way in v["what_would_decide"])
        assert "Pairs that a person dismissed" in Path(name, "report.html").read_text()
        show_outcome(again, "synthetic", Path(name), as_json=False)
        assert "Pixel-identical copies: 4\n" in (shown := capsys.readouterr().out)
        assert "Pairs that a person dismissed: 4\n" in shown


def test_a_changed_image_is_asked_about_again_and_a_copy_left_out_is_told(place: Path) -> None:
    sets = copied_sets(place)
    audited(sets, "run")
    fill(Path("run/review.csv"), set_0003=("dismiss", "A", "no"), set_0004=("confirm", "A", ""))
    images = np.array(sets.synthetic.images)
    images[3, 0, 0] ^= 3
    changed = store_of(images, place, "set")
    review = read_review(Path("run/review.csv"), replace(sets, synthetic=changed), NAMES)
    assert (len(review.dismissed), len(review.confirmed), len(review.changed)) == (0, 1, 1)
    found = audited(replace(sets, synthetic=changed), "changed", review=Path("run/review.csv"))
    assert found.per_group.set_index("group").loc["train-0003", "listed"]
    assert any("1 pair that was judged is of images that were changed since" in why for why in found.verdict["why"])
    rest = np.delete(np.arange(len(images)), 4)
    fewer = replace(changed, images=images[rest], manifest=changed.manifest.subset(rest),
                    pixel_hashes=changed.pixel_hashes[rest])  # fmt: skip
    review = read_review(Path("run/review.csv"), replace(sets, synthetic=fewer), NAMES)
    assert (len(review.elsewhere), len(review.confirmed), len(review.changed)) == (2, 0, 1)


def test_what_cannot_be_honoured_is_refused_in_one_line(place: Path) -> None:
    sets = copied_sets(place)
    key = pair_keys([(sets.synthetic.pixel_hashes[0], sets.train.pixel_hashes[0])], NAMES)[0]
    good = dict(zip(COLUMNS, ("set-0000", "train-0000", "", "", "", "", key, "dismiss", "A", "why"), strict=True))

    def refusal(*rows: dict[str, str]) -> str:
        pd.DataFrame(rows).to_csv("review.csv", index=False)
        with pytest.raises(InputError) as error:
            audited(sets, "refused", review=Path("review.csv"))
        assert not Path("refused").exists()
        return str(error.value)

    made = key.partition("-")[0]
    other = {"pair": "0-1", "synthetic_image": "set-9", "training_image": "nobody"}
    assert "judges no image of these sets" in refusal(good | other)
    lost = {"pair": f"{made}-1", "training_image": "nobody", "verdict": "confirm"}
    assert "line 3: the synthetic image 'set-0000' was confirmed as a copy of 'nobody'" in refusal(good, good | lost)
    assert "does not hold the contents of two images" in refusal(good | {"pair": made})
    assert "Did you mean 'dismiss'" in refusal(good | {"verdict": "dismis"})
    assert "needs who dismissed it" in refusal(good | {"by": " "})
    assert "needs who dismissed it" in refusal(good | {"reason": ""})
    assert "confirmed in one line and dismissed in another" in refusal(good, good | {"verdict": "confirm"})
    assert "lacks the column pair" in refusal({k: v for k, v in good.items() if k != "pair"})
    with pytest.raises(InputError, match="the file does not exist"):
        audited(sets, "refused", review=Path("nowhere.csv"))


def test_files_that_somebody_began_to_fill_stay(tmp_path: Path) -> None:
    def pairs(*keys: str) -> pd.DataFrame:
        rows = [("=image", "train", "p", "listed", 0.5, "", key, "", "", "") for key in keys]
        return pd.DataFrame(rows, columns=list(COLUMNS))

    assert write_review(tmp_path, pairs("a", "b")) == tmp_path / "review.csv"
    assert write_review(tmp_path, pairs("a")) == tmp_path / "review.csv"  # nobody wrote into it
    text = (tmp_path / "review.csv").read_text()
    assert "\n'=image," in text  # no formula in a spreadsheet
    (tmp_path / "review.csv").write_text(text.replace(",a,,", ",a,,somebody"))
    assert write_review(tmp_path, pairs("a", "c")) == tmp_path / "review-2.csv"
    assert pd.read_csv(tmp_path / "review-2.csv")["pair"].tolist() == ["c"]
    assert write_review(tmp_path, pairs("a")) is None
    assert not (tmp_path / "review-2.csv").exists()
    (tmp_path / "review.csv").write_bytes(b"\xff\xfe not a table that is known")
    write_review(tmp_path, pairs("a"))
    assert (tmp_path / "review.csv").read_bytes().startswith(b"\xff\xfe")
    assert (tmp_path / "review-2.csv").exists()


def test_names_that_a_spreadsheet_would_compute_come_back(place: Path) -> None:
    train, held, synthetic = parts(n_train=30, n_held=29, n_synthetic=30)
    synthetic[0] = train[0]
    stores = [store_of(i, place, n) for i, n in ((train, "=train"), (synthetic, "-set"), (held, "held"))]
    sets = Sets(stores[0], stores[1], stores[2], 0, 0, frozenset(), ())
    audited(sets, "run")
    table = pd.read_csv("run/review.csv", dtype=str, keep_default_na=False)
    assert table.loc[0, ["synthetic_image", "training_image"]].tolist() == ["'-set-0000", "'=train-0000"]
    table.loc[0, ["verdict", "by", "reason"]] = ("dismiss", "A", "=no")
    table.to_csv("run/review.csv", index=False, sep=";")
    review = read_review(Path("run/review.csv"), sets, NAMES)
    assert len(review.dismissed) == 1


def test_a_review_under_pseudonyms_names_nobody_and_is_honoured(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place / "config"))
    sets = copied_sets(place)
    audited(sets, "run", pseudonymise=True)
    text = Path("run/review.csv").read_text()
    assert "train-" not in text
    assert "set-" not in text
    table = pd.read_csv("run/review.csv", dtype=str, keep_default_na=False)
    audited(sets, "named")  # the order tells likeness, and nothing of where an image stood in a folder
    assert table["score"].tolist() == pd.read_csv("named/review.csv", dtype=str)["score"].tolist()
    table.loc[:1, ["verdict", "by", "reason"]] = ("dismiss", "A", "no")
    table.to_csv("judged.csv", index=False)
    assert audited(sets, "run", pseudonymise=True, review=Path("judged.csv")).verdict["n_dismissed"] == 2
    with pytest.raises(InputError, match="judges no image of these sets"):
        audited(sets, "plain", review=Path("judged.csv"))
