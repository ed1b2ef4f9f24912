"""Names are shown as they are, and nothing in them stays unseen."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorisk.report.text import elided, name_html, shorten, text_width, visible, visible_parts


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("melanoma", "melanoma"),
        ("高危 ליל é", "高危 ליל é"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("a\u202eb", "a\\u202eb"),
        ("bad\udc80", "bad\\udc80"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("nul\x00", "nul\\x00"),
        ("👩\u200d⚕️", "👩\u200d⚕️"),
        ("a\u200db", "a\\u200db"),
        ("", ""),
    ],
)
def test_visible(given, shown):
    assert visible(given) == shown


@given(st.text(st.characters()))
def test_nothing_invisible_is_left_but_joiners_of_emoji(text):
    for character in visible(text):
        assert unicodedata.category(character) not in {"Cc", "Cs", "Co", "Cn", "Zl", "Zp"}
        assert unicodedata.category(character) != "Cf" or character == "\u200d"
    assert "".join(part for part, _ in visible_parts(text)) == visible(text)
    visible(text).encode("utf-8")


@given(st.text(st.characters()))
def test_name_html_holds_no_markup_but_its_own(text):
    html = str(name_html(text))
    bare = html.replace("<bdi>", "").replace("</bdi>", "").replace('<span class="esc">', "").replace("</span>", "")
    assert "<" not in bare
    assert '"' not in bare


def test_escapes_are_marked_and_an_empty_name_is_named():
    assert str(name_html("a\nb")) == '<bdi>a<span class="esc">\\n</span>b</bdi>'
    assert str(name_html("")) == '<span class="esc">(empty)</span>'


@given(st.text(st.characters(categories=["L", "N", "So"]), max_size=60), st.integers(4, 30))
def test_shortened_text_fits_and_keeps_its_beginning(text, limit):
    cut = shorten(text, limit)
    assert text_width(cut) <= limit
    assert cut == text or (cut.endswith("…") and text.startswith(cut[:-1]))


def test_ids_that_differ_at_their_ends_differ_when_they_are_cut():
    ids = [f"1.2.840.113619.2.55.3.2831164355.{n:04}" for n in (7, 8)]
    short = [elided(text, 18) for text in ids]
    assert len(set(short)) == 2
    assert [len(text) for text in short] == [18, 18]
    assert elided(ids[0], len(ids[0])) == ids[0]
    assert elided("abcdef", 5) == "ab…ef"
    assert elided("squamous cell carcinoma in situ", 18) == "squamous…in situ"  # one word
