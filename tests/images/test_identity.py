"""The one rule of ids: their form, placeholders, ids that look alike, and what every source makes of them."""

import string
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from memorisk.audits.classifier.evidence import evidence_from_table
from memorisk.audits.classifier.losses import loss_id_doubts, with_normal_ids
from memorisk.audits.comparison.sets import refuse_shared_patients
from memorisk.images.columns import pick, texts
from memorisk.images.identity import id_doubts, look_alikes, look_alikes_across, normal_id, normal_label, placeholders
from memorisk.images.manifest import Manifest
from memorisk.images.options import ImageOptions
from memorisk.images.set_check.check import check_images
from memorisk.images.sources.joined import join_manifests
from memorisk.images.sources.registry import load_manifest
from memorisk.runs.errors import InputError

SEEN, UNSEEN = "Zürich 7", ["\u200bZu\u0308rich 7", " Zürich 7\t", "Zürich\ufeff 7\0", "\u202aZürich 7\u202c\xa0"]
UNSEEN += ["Zürich\x9d 7\x7f", "\ufffcZürich\u17b4 7\U0001d173"]
UNSEEN += ["Zürich\u3164 7\u2800", "Zürich 7\U000e0041"]


def _pictures(root: Path, names: list[str]) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 4), 9, np.uint8)).save(root / name, "PNG")
    return root


def _table(root: Path, patients: list[str], **columns: list[str]) -> Path:
    files = [f"{k}.png" for k in range(len(patients))]
    _pictures(root, files)
    pd.DataFrame({"file": files, "patient": patients, **columns}).to_csv(root / "table.csv", index=False)
    return root / "table.csv"


@pytest.mark.parametrize("written", UNSEEN)
def test_an_id_has_one_form(written: str) -> None:
    assert normal_id(written) == normal_id(normal_id(written)) == SEEN


def test_labels_have_the_form_of_each_finding() -> None:
    assert normal_label("mass |\u200bno\u0308d | ") == "mass|nöd|"


def test_every_source_gives_ids_the_one_form(tmp_path: Path) -> None:
    table = load_manifest(_table(tmp_path / "table", [SEEN, *UNSEEN[:3], "other"]))
    assert set(table.groups) == {SEEN, "other"}
    folder = _pictures(tmp_path / "folder", ["Zu\u0308/p1_1.png", "Zü /p1\u200b_2.png", "b/p2_1.png"])
    by_pattern = load_manifest(folder, ImageOptions(group_from="(p.+)_"))
    assert by_pattern.classes == ["Zü", "b"]
    assert by_pattern.groups.tolist() == ["p1", "p1", "p2"]
    images = np.zeros((5, 4, 4), np.uint8)
    np.savez(tmp_path / "a.npz", images=images, patients=np.array([SEEN, *UNSEEN[:3], "other"]))
    assert set(load_manifest(tmp_path / "a.npz").groups) == {SEEN, "other"}
    pd.DataFrame({"image": [f"{k}.png" for k in range(5)], "label": "a", "patient": [SEEN, *UNSEEN[:3], "x"]}).to_csv(
        tmp_path / "labels.csv", index=False
    )
    joined = load_manifest(tmp_path / "table", ImageOptions(labels_csv=tmp_path / "labels.csv", layout="folder"))
    assert set(joined.groups) == {SEEN, "x"}


@pytest.mark.parametrize(
    "word",
    [
        *("ANONYMOUS", "anon.", "Anonymized", "<REMOVED>", "[redacted]", "XXX", "xxxxxx", "#REF!", "#N/A", "-1", "--"),
        *("Patient, unknown", "ANONYMOUS^ANONYMOUS", "unknown_patient", "not available", "Unbekannt", "n.a.", "***"),
        *("0", "000000", "0.0", "#BEZUG!", "#NOM?", "#NV", "(leer)", "no data"),
        *("-9", "-999", "DUMMY", "REMOVED_BY_DEID", "keine Angabe", "匿名", "John Doe"),
        *(
            "ＮＡ",
            "ＡＮＯＮ",
            "００００",
            "－１",
            "ANÓNIMO",
            "anonymisée",
            "geanonimiseerd",
            "desconhecido",
            "аноним",
            "Anônimo",
        ),
        *("氏名不詳", "익명", "onbekend", "okänd", "ukjent", "tuntematon", "nieznany", "sconosciuto", "bilinmiyor"),
        *(
            "неизвестный",
            "k.A.",
            "k. A.",
            "#N/V",
            "not recorded",
            "NotRecorded",
            "non renseigné",
            "TEST",
            "Test^Patient",
        ),
        *("TESTPATIENT", "Patient", "PatientID", "Anon 1", "TEST01", "REMOVED BY CTP", "De_identified patient"),
        *("-999.0", "-1.0", "-99,0", "+0", "NaN.0", "000-00-0000", "0-0", "00000000-0000-0000-0000-000000000000"),
        *("1900-01-01", "1970-01-01 00:00:00", "01.01.1900", "999999", "99999.0", "d41d8cd98f00b204e9800998ecf8427e"),
        *("da39a3ee5e6b4b0d3255bfef95601890afd80709",),
        *("UNKN", "\\N", "N.N.", "XX^XX", "X X X", "No Patient ID", "PHI removed", "9999-12-31", "none given"),
        *("fehlt", "n/k", "missing data", "manquant"),
        "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855",
    ],
)
def test_a_word_for_nobody_is_no_patient(tmp_path: Path, word: str) -> None:
    assert placeholders(["4711", word, "8105"]) == [word]
    with pytest.raises(InputError, match=r"^2 images have the patient id .* looks like none .* leave such ids empty"):
        load_manifest(_table(tmp_path, ["4711", word, word, "8105"]))


@pytest.mark.parametrize(
    "ids",
    [
        ["0", "1", "2"],
        ["000", "001", "002"],
        ["0.0", "1.0"],
        ["0", "3", "4", "5", "7", "8", "9", "11", "12"],
        ["x", "xx", "Anna", "No1", "patient 1", "P0", "10", "-7", "a0", "K.A.", "Nona", "Pat", "Tester", "NA1"],
        ["anon1", "anon2", "TEST-01", "TEST-02"],
        ["0-0", "0-1", "1-0", "1-1"],
        ["00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000001"],
        ["9998", "9999", "4711"],
        [*map(str, range(1, 20000, 3)), "9999"],
        ["1900-01-02", "999", "d41d8cd98f00b204e9800998ecf8427f"],
        ["N.M.", "NN", "nk", "X^X", "Fehling", "noname7", "9999-12-30"],
    ],
)
def test_names_and_numbers_from_zero_are_patients(ids: list[str]) -> None:
    assert placeholders(ids) == []


@pytest.mark.parametrize("zero", ["000000", "00", "0.0", "0-0"])
def test_a_zero_of_another_form_than_the_count_is_a_placeholder(zero: str) -> None:
    count = [str(number) for number in range(1, 481)]
    assert placeholders([zero, *count]) == [zero]
    assert placeholders(["0", *count]) == []
    assert placeholders(["0", *(f"{number:03}" for number in range(1, 481))]) == ["0"]


def test_ids_look_alike_by_their_form_alone() -> None:
    alike = [("0007", "007", "7", "7.0"), ("ABC1", "AbC1", "abc1"), ("MRN 5", "MRN5"), ("P-12", "P12", "P_12")]
    assert look_alikes([name for names in alike for name in names]) == alike
    assert look_alikes(["'8", "8", "８", "site1/p07", "site1/p7"]) == [("'8", "8", "８"), ("site1/p07", "site1/p7")]
    assert look_alikes(['="0014"', "14"]) == [("14", '="0014"')]


@pytest.mark.parametrize("dash", ["\u2010", "\u2011", "\u2013", "\u2014", "\u2212", "\ufe63", "\uff0d"])
def test_dashes_of_every_kind_look_alike(dash: str) -> None:
    assert look_alikes([f"12{dash}7", "12-7", "127"]) == [("12-7", f"12{dash}7")]


@pytest.mark.parametrize(
    "alike",
    [
        ("P/12", "P12", "P.12", "P_12", "P-12", "P 12", "p\\012", "[P:12]"),
        ("P12", "Ｐ１２", "P\u0661\u0662", "P\u0967\u0968", "\U0001d40f12"),
        ("DOE^JOHN", "DOE^JOHN^", "Doe^John^^", "DOE^JOHN=道^太郎", "DOE, JOHN", "doe_john"),
        ("=山田^太郎", "山田^太郎=やまだ^たろう", "山田^太郎"),
        ("PAT1", "\u0420\u0410\u04221", "\u03a1\u0391\u03a41", "\u0440\u0430\u04421", "P\u0410T-01"),
        ("1E+5", "1.0e+05", "1,E+5", "100000", "100000.0", "0100000"),
        ("1.23457E+11", "123457000000"),
        ("7", "7.0", "7,00", "007", "’7", "'7", '="07"', "+7"),
        ("P7.0", "P7", "p-007.00"),
        ("patient_8.0_L", "patient_8_L"),
        ("İREM", "irem", "ırem", "Irem"),
        ("MÜLLER", "muller", "Mu\u0308ller"),
        ("12-345-678", "12345678", "12345678.0"),
        ("550e8400-e29b-41d4-a716-446655440000", "550E8400E29B41D4A716446655440000"),
        ("2,345", "2345", "02345"),
        ("1E5", "100000"),
        ("12E5", "1200000", "1200000.0"),
        ("+49-1234567", "491234567"),
        ("A1^^^H1", "A1"),
    ],
)
def test_ids_that_are_one_but_for_their_writing_look_alike(alike: tuple[str, ...]) -> None:
    assert look_alikes(["P11", *alike, "P21"]) == [tuple(sorted(alike))]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *(
            ("1-23", "12-3"),
            ("1-2", "12"),
            ("1/2", "12"),
            ("1.1", "1.10"),
            ("a-b1", "ab-1"),
            ("P1", "P11"),
            ("P10", "P1"),
        ),
        *(("HER2+", "HER2-"), ("+", "-"), ("-1", "1"), ("<=50K", ">50K"), ("♂1", "♀1"), ("id=7", "id=8")),
        *(("DOE^JOHN", "DOE^JOHNA"), ("DOE^JOHN^A", "DOE^JOHN"), ("कि1", "की1"), ("Нина", "Нана"), ("Ω1", "O1")),
        *(("A1^^^H1", "A1^^^H2"), ("A1^B2", "A1"), ("1.2.840.0", "1.2.840"), ("-1234", "1234"), ("й1", "и1")),
        *(("1E-5", "1E-05x"), ("1.5E+0", "1"), ("1E+500", "1")),
    ],
)
def test_ids_that_differ_by_more_do_not_look_alike(one: str, other: str) -> None:
    assert look_alikes([one, other]) == []


@pytest.mark.parametrize(
    ("alphabet", "length"),
    [(string.hexdigits[:16], 16), (string.digits, 12), (string.ascii_letters + string.digits + "-_", 11)],
)
def test_random_ids_do_not_look_alike(alphabet: str, length: int) -> None:
    characters = np.random.default_rng(1).choice(list(alphabet), size=(20_000, length))
    assert look_alikes("".join(row) for row in characters) == []


def test_ids_of_one_form_do_not_look_alike() -> None:
    rng = np.random.default_rng(1)
    assert look_alikes(f"{number:08d}" for number in rng.choice(10**8, size=20_000, replace=False)) == []
    assert look_alikes(str(UUID(bytes=rng.bytes(16))) for _ in range(5_000)) == []
    assert look_alikes(f"{site}-{patient}" for site in range(1, 30) for patient in range(1, 300)) == []
    assert look_alikes(f"P{number}" for number in range(5_000)) == []


@pytest.mark.parametrize(
    "schemes",
    [
        ([f"SITE{site}-{patient:03}" for site in range(1, 20) for patient in range(1, 60)],),
        ([f"P{patient:03}-{side}" for patient in range(1, 300) for side in "LR"],),
        ([f"P{patient}-{day}-0{month}-2021" for patient in range(1, 90) for day in (3, 14) for month in (1, 2)],),
        ([f"1.2.840.{one}.{other}" for one in range(99) for other in range(0, 3000, 70)],),
        ([f"{site}-{patient}" for site in range(1, 5) for patient in range(1, 100)], map(str, range(1, 500))),
        ([f"{site:02}-{n:04}" for site in range(1, 9) for n in range(1, 50)], map(str, range(10000, 99999, 77))),
        ([f"P{patient}" for patient in range(1, 300)], [f"P{patient}-1" for patient in range(1, 300, 9)]),
        ([f"{row}E{place}" for row in range(1, 9) for place in range(1, 13)], map(str, range(1, 900))),
        ([f"A{number}^^^H{issuer}" for number in range(1, 90) for issuer in (1, 2)],),
    ],
)  # fmt: skip
def test_honest_ids_do_not_look_alike(schemes: tuple[list[str], ...]) -> None:
    ids = [name for scheme in schemes for name in scheme]
    assert look_alikes(ids) == id_doubts(ids) == placeholders(ids) == []


@pytest.mark.parametrize("n", [1, 99, 2000])
def test_a_part_that_leaves_out_the_marks_of_ids_looks_alike(n: int) -> None:
    numbers = np.random.default_rng(1).choice(10**8, size=n, replace=False).tolist()
    ours = {f"{number // 10**5:03}-{number % 10**5:05}" for number in numbers}
    assert len(look_alikes_across(ours, {f"{number:08}" for number in numbers})) == n


def test_ids_that_lost_their_digits_are_named() -> None:
    (doubt,) = id_doubts(["1.23457E+11", "1,23458e+11", "1-Mar", "2E5", "12-E", "4711"])
    assert doubt.ids == ("1,23458e+11", "1-Mar", "1.23457E+11")
    dates = ("2-Sep-21", "2021-03-01 00:00:00", "Mar-21")
    assert [doubt.ids for doubt in id_doubts([*dates, "2021-03-01", "Mar-x1", "Mary-21"])] == [dates]
    assert "several people may have one" in doubt.why


@pytest.mark.parametrize(
    "name",
    [
        *(
            "01-mars",
            "1-abr",
            "1-ago",
            "Mrz 21",
            "Sept-21",
            "01-févr",
            "1-Sept",
            "01-août",
            "Mar 21",
            "March 1",
            "1-kwi",
        ),
        *("3/1/2021", "01.03.2021", "2021-03-02", "2021-03-01T00:00:00Z", "3/1/2021 0:00", "03/01/2021 12:00:00 AM"),
        *("3月1日", "2021年3月1日", "12:30", "0:07:00", "1.23457e11", "2.0E7", "P1.23457E+11", "1,23457 E+11"),
        *("1234567890123450", "12345678901234500000", "Mar-01-2021"),
    ],
)
def test_a_few_ids_that_spreadsheets_made_are_named(name: str) -> None:
    (doubt,) = id_doubts([name, "4711", "P-8105", "007a", "site1-4"])
    assert (doubt.code, doubt.ids) == ("lost-digits", (name,))


@pytest.mark.parametrize(
    "ids",
    [
        [f"2021-03-{day:02}" for day in range(1, 29)],
        [f"{site}:{number}" for site in range(1, 13) for number in range(1, 90)],
        [*(f"{number:02}-{name}" for number in range(1, 9) for name in ("mars", "anna", "abr", "liz", "eva", "bob"))],
        [str(number) for number in np.random.default_rng(1).integers(10**15, 10**16, 300)],
        [f"{one}/{other}/{number}" for one in (1, 2) for other in (3, 44) for number in range(1900, 2100, 9)],
        ["4711", "P-8105", "1-12", "12/30", "1.5", "v1.5E7", "2E5", "marc-21", "20210301", "123456789012345", "A12:30"],
    ],
)
def test_honest_ids_are_no_work_of_spreadsheets(ids: list[str]) -> None:
    assert [doubt for doubt in id_doubts(ids) if doubt.code == "lost-digits"] == []


@pytest.mark.parametrize(("kind", "bits"), [(np.float64, 53), (np.float32, 24), (np.float16, 11)])
def test_floats_that_cannot_hold_an_id_are_named(tmp_path: Path, kind: type, bits: int) -> None:
    exact, rounded = kind(2**bits - 1), kind(2**bits)
    assert texts(np.array([exact, np.nan], kind)) == [str(2**bits - 1), ""]
    assert not id_doubts(texts(pd.Series([exact], dtype=kind)))
    assert id_doubts(texts(pd.Series([rounded], dtype=kind)))
    if kind is not np.float16:  # Parquet of pandas has none
        _table(tmp_path, ["1", "2"])
        patients = np.array([exact, rounded], kind)
        pd.DataFrame({"file": ["0.png", "1.png"], "patient": patients}).to_parquet(tmp_path / "t.parquet")
        assert len(load_manifest(tmp_path / "t.parquet").id_doubts) == 1


def test_images_check_names_the_ids_and_runs_do_not(tmp_path: Path) -> None:
    manifest = load_manifest(_table(tmp_path, ["007", "7", "P1", "P2"]))
    (doubt,) = manifest.id_doubts
    assert "007" not in " ".join((*manifest.notes, doubt.why, doubt.what_would_decide))
    (named,) = check_images(manifest, processes=1).id_doubts
    assert "(007 and 7)" in named.words
    (joined,) = join_manifests([manifest, replace(load_manifest(tmp_path / "table.csv"), name="again")]).id_doubts[:1]
    assert joined.ids == ("table: 007 and 7",)


def test_names_of_images_are_no_patients_that_look_alike(tmp_path: Path) -> None:
    folder = _pictures(tmp_path, ["a/1.png", "a/01.png", "b/P-2.png", "b/p2.png"])
    assert load_manifest(folder).id_doubts == ()
    assert load_manifest(folder, ImageOptions(frames="all")).id_doubts == ()


def test_classes_that_differ_by_form_are_noted(tmp_path: Path) -> None:
    folder = _pictures(
        tmp_path, ["train/Benign/1.png", "test/benign/2.png", "test/malignant /3.png", "train/malignant/4.png"]
    )
    manifest = load_manifest(folder)
    assert manifest.classes == ["Benign", "benign", "malignant"]
    assert [note for note in manifest.notes if "(Benign and benign)" in note]


def _parts(train: list[str], held: list[str]) -> tuple[Manifest, Manifest]:
    def manifest(groups: list[str], name: str) -> Manifest:
        """A manifest of images of these patients."""
        images = [f"{name}{k}.png" for k in range(len(groups))]
        return Manifest(pd.DataFrame({"image": images, "path": images, "label": "", "group": groups}), None, name)

    return manifest(train, "train"), manifest(held, "held")


def test_ids_that_look_alike_across_training_and_held_out_are_refused() -> None:
    with pytest.raises(InputError, match=r"1 patient id looks alike in training and held out \(P07 and p7\)"):
        refuse_shared_patients(*_parts(["P07", "P8", "p8"], ["p7", "P9"]))
    assert refuse_shared_patients(*_parts(["P07", "P8", "p8"], ["P70", "P9"])) == []


@pytest.mark.parametrize(("canary", "test", "n"), [("007", "7", 1), ("P1", "p1", 1), ("P1", "P2", 0), ("P1 ", "P1", 0)])
def test_losses_doubt_ids_that_look_alike_across_parts(loss_table, canary: str, test: str, n: int) -> None:
    if canary.strip() == test:
        with pytest.raises(InputError, match="has images of split canary and test"):
            loss_table(canary, test)
        return
    assert len(loss_id_doubts(loss_table(canary, test))) == n
    assert loss_id_doubts(loss_table("C1", "T1", also_test="t1")) == []  # both in the test part
    assert len(loss_id_doubts(loss_table("C1", "T1", also_canary="c1"))) == 1


@pytest.fixture
def loss_table():
    def made(canary: str, test: str, *, also_test: str = "T9", also_canary: str = "C9"):
        """A score table of two canaries and two test patients."""
        rows = []
        for i, (group, split) in enumerate(
            [(canary, "canary"), (also_canary, "canary"), (test, "test"), (also_test, "test")]
        ):
            for seed in (0, 1):
                for role in "AB":
                    member = split == "canary" and (role == "A") == (i == 0)
                    rows.append((f"i{i}", "a", group, split, seed, role, member, 0.5 + 0.1 * i + 0.01 * seed))
        columns = ["image", "label", "group", "split", "seed", "role", "member", "loss"]
        return evidence_from_table(with_normal_ids(pd.DataFrame(rows, columns=columns)))

    return made


@pytest.mark.parametrize("column", ["patient_no", "patientno", "Patientennummer", "PatNr", "Subject Number", "MRN"])
@pytest.mark.parametrize("side", ["eye", "side", "laterality"])
def test_columns_of_patients_are_found_and_those_of_sides_are_not(column: str, side: str) -> None:
    assert pick(["file", side], "group", None, "t") is None
    assert pick(["file", side, "case", column], "group", None, "t") == column
