"""What is left of a person when ids are to go."""

import hashlib
import hmac
import json

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorisk.report.result import REDACTED, Result, pseudonyms, redact

KEY = bytes(range(32))


def test_pseudonyms_are_the_keyed_hash_and_nothing_less():
    made = pseudonyms(["patient-1", "patient-1", "patient-2"], KEY)
    assert made["patient-1"] == hmac.new(KEY, b"patient-1", hashlib.sha256).hexdigest()[:16]
    assert len(set(made.values())) == len(made) == 2
    assert made["patient-1"] != hashlib.sha256(b"patient-1").hexdigest()[:16]
    assert pseudonyms(["patient-1"], bytes(32)) != {"patient-1": made["patient-1"]}


@given(st.sets(st.text(st.characters()), max_size=20))
def test_any_id_has_a_pseudonym(ids):
    made = pseudonyms(ids, KEY)
    assert made.keys() == ids
    assert all(len(v) == 16 and set(v) <= set("0123456789abcdef") for v in made.values())


def test_keys():
    with pytest.raises(ValueError, match="at least 16"):
        pseudonyms(["a"], b"short")


def ids(*values) -> pd.Series:
    return pd.Series(list(values), dtype=object)


def test_redaction_reaches_tables_lists_keys_and_sentences():
    result = Result(
        per_image=pd.DataFrame({"image": ids("scan-77.png", "x"), "group": ids("Miller", "7"), "label": ids("0", "7")}),
        per_group=pd.DataFrame({"group": ids("Miller", "training"), "M": [1.0, 2.0]}),
        tables={"paths": pd.DataFrame({"path": ids("/home/Miller/scan-77.png"), "size": [3]})},
        summary={
            "notes": ["scan-77.png was skipped", "Millers stay", "7 images"],
            "not_scored_groups": ["somebody"],
            "data_hash": {"training": "ab", "synthetic": "cd"},
            "by_patient": {"Miller": 0.5, "7": 1.0},
            "not_auditable": ["7"],
            "seeds": [123, 456],
            "versions": {"python": "3.11"},
        },
        verdict={"why": ["Miller is flagged"], "flagged_groups": {"0": ["Miller"], "7": []}},
    )
    redacted = redact(result)
    text = json.dumps([redacted.summary, redacted.verdict])
    assert "scan-77" not in text
    assert "Miller " not in text
    assert "somebody" not in text
    for table in redacted.all_tables().values():
        assert not {"image", "group", "path"} & set(table.columns)
    assert redacted.summary["notes"] == [f"{REDACTED} was skipped", "Millers stay", "7 images"]
    assert redacted.summary["not_scored_groups"] == 1
    assert redacted.summary["by_patient"] == 2
    assert redacted.summary["data_hash"] == {"training": "ab", "synthetic": "cd"}  # though a patient is called training
    assert redacted.summary["not_auditable"] == ["7"]  # a class, though a patient is called 7 as well
    assert redacted.summary["seeds"] == [123, 456]
    assert redacted.verdict["why"] == [f"{REDACTED} is flagged"]
    assert redacted.verdict["flagged_groups"] == {"0": 1, "7": []}
    assert result.per_image["group"].tolist() == ["Miller", "7"]
