"""A result comes back from its folder exactly as it went in."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorisk.report.result import Result, escape, from_storable, to_storable, unescape
from memorisk.runs.errors import InputError

HOSTILE = ["<b>&\"'", "line\nbreak", "\u202eabc", "🫀", "bad\udc80name", "back\\slash \\udc80", ""]


def text(*values) -> pd.Series:
    return pd.Series(list(values), dtype=object)


def full_result() -> Result:
    rng = np.random.default_rng(0)
    n = len(HOSTILE)
    per_image = pd.DataFrame(
        {
            "image": text(*HOSTILE),
            "label": ["a"] * n,
            "group": text(*HOSTILE[::-1]),
            "M": rng.normal(size=n),
            "p_value": np.r_[np.nan, rng.random(n - 1)].astype(np.float32),
            "flagged": rng.random(n) < 0.5,
            "n_seeds": pd.array([1, None, *range(n - 2)], dtype="Int64"),
            "maybe": pd.array([True, None, *([False] * (n - 2))], dtype="boolean"),
            "tier": pd.Categorical(["LOW", "HIGH"] * (n // 2) + ["LOW"] * (n % 2)),
            "count": np.arange(n, dtype=np.uint16),
        }
    )
    per_class = pd.DataFrame({"label": ["a", "b"], "mean": [np.inf, -np.inf], "why_not": text(None, "too few")})
    return Result(
        per_image=per_image,
        per_class=per_class,
        attacks=pd.DataFrame({"attack": text(np.nan, "loss"), "auc": [0.5, np.nan]}),
        summary={"design": "balanced", "null": {"null": np.array([0.1, np.nan])}, "notes": ["bad\udc80name"]},
        verdict={"status": "fail", "why": ["x"], "n": np.int64(3), "share": np.float32(0.5)},
        tables={"curves": pd.DataFrame({"x": [1.0]}), "nothing": pd.DataFrame()},
    )


def assert_same(a: Result, b: Result) -> None:
    assert a.all_tables().keys() == b.all_tables().keys()
    for name, table in a.all_tables().items():
        other = b.all_tables()[name]
        pd.testing.assert_frame_equal(table, other, check_exact=True)
        for column in table.columns:  # assert_frame_equal takes None and NaN for the same
            kinds = [type(v) for v in table[column]], [type(v) for v in other[column]]
            assert kinds[0] == kinds[1], (name, column)
    assert a.summary == b.summary
    assert a.verdict == b.verdict


def test_round_trip_keeps_dtypes_missing_values_and_any_text(tmp_path):
    result = full_result()
    result.save(tmp_path / "deep" / "run")
    assert_same(result, Result.load(tmp_path / "deep" / "run"))


def test_saved_tables_show_usual_text_to_any_parquet_reader(tmp_path):
    table = pd.DataFrame({"label": text("melanoma", "back\\slash", "é\n")})
    Result(per_class=table).save(tmp_path)
    assert list(pd.read_parquet(tmp_path / "per_class.parquet")["label"]) == ["melanoma", "back\\slash", "é\n"]


def test_same_result_same_bytes(tmp_path):
    for name in "ab":
        full_result().save(tmp_path / name)
    files = sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*") if p.is_file())
    assert len(files) == 9
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_a_killed_save_leaves_no_verdict(tmp_path, monkeypatch):
    full_result().save(tmp_path)

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("memorisk.report.result.write_json", killed)
    with pytest.raises(KeyboardInterrupt):
        full_result().save(tmp_path)
    assert not (tmp_path / "verdict.json").exists()
    with pytest.raises(InputError, match=r"verdict\.json missing"):
        Result.load(tmp_path)


def test_saving_again_replaces_and_drops_tables_of_before(tmp_path):
    full_result().save(tmp_path)
    again = full_result().replace(tables={"curves": pd.DataFrame({"x": [2.0]})}, verdict={"status": "pass"})
    again.save(tmp_path)
    assert_same(again, Result.load(tmp_path))


def test_files_are_private(tmp_path):
    full_result().save(tmp_path / "run")
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700
    for file in (tmp_path / "run").glob("*.*"):
        assert file.stat().st_mode & 0o077 == 0, file


def test_numbers_of_a_summary_are_json_from_the_start():
    result = Result(summary={"a": np.float64("nan"), "b": np.arange(2)}, verdict={"c": (1, np.inf)})
    assert result.summary == {"a": None, "b": [0, 1]}
    assert result.verdict == {"c": [1, None]}


def test_status_defaults_to_undecided():
    assert Result().status == "undecided"
    assert Result(verdict={"status": "pass"}).status == "pass"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pd.DataFrame({"a": [[1], [2]]}), "objects must be text"),
        (pd.DataFrame({"a": [1]}, index=["x"]), "index is not stored"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "each once"),
        (pd.DataFrame([[1, 2]]), "named by text"),
    ],
)
def test_tables_that_cannot_be_stored_are_refused_at_once(table, message):
    with pytest.raises(ValueError, match=message):
        Result(per_image=table)


@pytest.mark.parametrize("name", ["../up", "per_image", "", "A", "a.b"])
def test_table_names_stay_in_their_folder(name):
    with pytest.raises(ValueError, match="table name"):
        Result(tables={name: pd.DataFrame()})


def test_rows_chosen_from_a_larger_table_are_stored_in_order(tmp_path):
    table = pd.DataFrame({"x": [1, 2, 3, 4]})
    Result(per_image=table[table["x"] % 2 == 0]).save(tmp_path)
    assert list(Result.load(tmp_path).per_image["x"]) == [2, 4]


# Undecodable bytes become low surrogates; a high one beside a low one would be read from JSON as one character.
any_text = st.text(st.characters(exclude_categories=["Cs"]) | st.characters(min_codepoint=0xDC80, max_codepoint=0xDCFF))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(any_text | st.none(), max_size=8),
    st.lists(any_text, max_size=4, unique=True),
    st.dictionaries(any_text, any_text),
)
def test_any_text_survives(tmp_path_factory, values, names, summary):
    table = pd.DataFrame({f"c{i}": text(*values) for i in range(len(names))})
    table.columns = pd.Index(names, dtype=object)
    folder = tmp_path_factory.mktemp("result")
    result = Result(per_image=table, summary=summary)
    result.save(folder)
    assert_same(result, Result.load(folder))


@given(st.text(st.characters()))
def test_escape_is_undone_and_leaves_no_surrogate(value):
    assert unescape(escape(value)) == value
    escape(value).encode("utf-8")


def test_a_table_of_another_writer_comes_back_as_it_is():
    table = pd.DataFrame({"a": [1]})
    assert from_storable(table) is table
    assert from_storable(to_storable(table, "t")).equals(table)
