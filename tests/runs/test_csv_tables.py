"""CSV that no spreadsheet takes for formulas, and that gives back what was written."""

import ast
import csv
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memorisk
from memorisk.images.columns import read_described
from memorisk.runs.folder import open_run
from memorisk.runs.tables import quote_formulas, unquote_formulas, unquote_table, write_csv

SIGNS = "=+@\t\r\n＝＋－＠-"
NUMBER = r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?"
HOSTILE = ("=1+1", "+x", "-x", "@SUM(A1)", "\tx", "\r=x", "\n=x", "a,=1", "a;=1", 'a"=1', "a|=1", " =1", "' =1", "'=1",
           "''=1", "'", "'t Hooft", "", "-", "a\t-b", 'x",=cmd|"/c calc"!A0', "＝1")  # fmt: skip
JOINS = {"images/published/odir5k.py", "audits/classifier/target/attacks.py"}
"""Modules that join the names of columns or of classes, and write nothing."""
READ_AGAIN = {"audits/image_set/mending.py"}
"""Modules whose table is the input of the next command, which reads every cell as it is."""
texts = st.text(st.sampled_from(" ',;|\"\t\r\na1." + SIGNS) | st.characters(codec="utf-8", exclude_characters="\0"))


def cells(line: str, separator: str) -> list[str]:
    """What a spreadsheet that splits at a separator shows, line breaks in cells included."""
    return [cell for row in csv.reader(io.StringIO(line, newline=""), delimiter=separator) for cell in row]


@given(texts | st.sampled_from(HOSTILE))
def test_a_text_comes_back_and_is_no_formula(text: str) -> None:
    quoted = quote_formulas(text)
    assert unquote_formulas(quoted) == text
    if not re.fullmatch(NUMBER, text):
        assert not re.match(rf"[' ]*[{SIGNS}]", quoted) or quoted.startswith("'")


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=4))
def test_no_cell_is_a_formula_wherever_a_spreadsheet_splits(tmp_path_factory, rows: list[tuple[str, str]]) -> None:
    path = tmp_path_factory.mktemp("csv") / "table.csv"
    table = pd.DataFrame(rows, columns=["image", "label"], dtype=object)
    write_csv(path, table)
    shown = cells(path.read_bytes().decode(), ",")
    assert [unquote_formulas(cell) for cell in shown] == ["image", "label", *(value for row in rows for value in row)]
    for separator in ",;\t|":
        for cell in cells(path.read_bytes().decode(), separator):
            beginning = cell.lstrip(' "\t\r\n')  # a cell that is cut may begin with what was the end of another
            assert beginning[:1] not in tuple(SIGNS) or re.match(rf'{NUMBER}([",\s]|$)', beginning)
    pd.testing.assert_frame_equal(read_described(path, quoted=True).astype(object), table)


def test_names_that_need_nothing_are_written_as_they_are() -> None:
    for text in ("p1", "'t Hooft", "O'Neil", "1 = 2", "a-b", "2020-01-01", "-1", "+0.5e-3", "é"):
        assert quote_formulas(text) == text
    assert [quote_formulas(text) for text in ("=x", "'=x", "a, -b")] == ["'=x", "''=x", "a,' -b"]


def test_values_are_written_as_pandas_writes_them(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {"id": ["a", None], "x": [0.1, np.nan], "small": np.array([0.1, 1e-7], dtype=np.float32), "n": [1, -2],
         "kept": [True, False], "there": pd.array([1, None], dtype="Int64")}
    )  # fmt: skip
    write_csv(tmp_path / "table.csv", table)
    assert (tmp_path / "table.csv").read_text() == table.to_csv(index=False, lineterminator="\n")
    write_csv(tmp_path / "one.csv", pd.DataFrame({"only": ["", "b"]}))
    assert read_described(tmp_path / "one.csv")["only"].tolist() == ["", "b"]


def test_names_of_columns_are_quoted_too() -> None:
    table = pd.DataFrame({"'=a": ["'-b"], 3: [1.5]})
    assert unquote_table(table).to_dict("list") == {"=a": ["-b"], 3: [1.5]}


def test_quotes_are_taken_away_only_in_what_memorisk_wrote(tmp_path: Path) -> None:
    """A foreign table may name a file '=x.png."""
    (tmp_path / "foreign.csv").write_text("image\n'=x\n")
    assert read_described(tmp_path / "foreign.csv")["image"].tolist() == ["'=x"]
    with open_run(tmp_path / "run", {}, identity=[]) as run:
        run.log("started")
        write_csv(run / "manifest.csv", pd.DataFrame({"image": ["=x", "'=x", "'t Hooft"]}))
    assert read_described(tmp_path / "run" / "manifest.csv")["image"].tolist() == ["=x", "'=x", "'t Hooft"]


def writes_csv(tree: ast.AST) -> bool:
    """Whether code calls what writes separated text; reading by the module csv is none of it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(name.name == "csv" and name.asname for name in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and node.module in ("csv", "pyarrow.csv"):
            return True
        of_csv = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "csv"
        if of_csv and node.attr not in ("reader", "Error"):
            return True
        if isinstance(node, ast.Attribute) and node.attr in ("to_csv", "savetxt", "write_csv", "to_excel"):
            return True
        joined = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "join"
        if joined and isinstance(node.func.value, ast.Constant) and node.func.value.value in (",", ";", "\t"):
            return True
    return False


@pytest.mark.parametrize(
    "code",
    [
        "csv.writer(file)", "csv.DictWriter(file)", "import csv as c", "from csv import writer", "table.to_csv('x')",
        "','.join(row)", "np.savetxt(path, a)",
    ],
)  # fmt: skip
def test_the_search_for_other_writers_finds_one(code: str) -> None:
    assert writes_csv(ast.parse(code))


def test_nothing_else_writes_csv() -> None:
    source = Path(memorisk.__file__).parent
    texts = {file: file.read_text(encoding="utf-8") for file in source.rglob("*.py")}
    named = re.compile(r"""csv|savetxt|to_excel|(?:[,;\t]|\\t)['"]+\)?\s*\.\s*join""")  # nothing else can be found
    found = {
        str(file.relative_to(source))
        for file, text in texts.items()
        if named.search(text) and writes_csv(ast.parse(text))
    }
    assert found - JOINS == {"runs/tables.py"} | READ_AGAIN
