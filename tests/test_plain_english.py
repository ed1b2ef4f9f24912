"""Counts of `recipes/plain_english.py` on texts that break each rule, and on plain ones."""

import runpy
from collections import defaultdict
from pathlib import Path

RECIPE = runpy.run_path(str(Path(__file__).parents[1] / "recipes" / "plain_english.py"))
MODULE = '''
"""Numbers of a set, as the user asked."""
# nobody reads this
LEVEL = 0.1
"""Of the list."""


def count(rows):
    """Return a row an image.

    Args:
        rows: Which rows.
    """
    found = [row for row in rows]
    return found
'''
PLAIN = '''
"""Numbers of a set."""
LEVEL = 0.1
"""Level of the list."""


def count(rows):
    """Return one row per image.

    Args:
        rows: Rows of the table.
    """
    images = [row for row in rows]
    return images
'''


def test_each_rule_counts_what_breaks_it_and_nothing_of_plain_texts():
    hits, none = defaultdict(list), defaultdict(list)
    RECIPE["count_module"]("a.py", MODULE, hits)
    RECIPE["count_data"]("a.yaml", "note: Nobody is here, a row an image", hits)
    RECIPE["count_page"]("a.md", "It stands here.\n```\nbeside\n```\n| beside |\n“told” is a word.", hits)
    assert {rule: len(places) for rule, places in hits.items()} == {
        "openings": 2, "words": 3, "words in docs": 1, "distributives": 2, "participles": 1,
    }  # fmt: skip
    assert hits["openings"] == ["a.py:5: Of the list.", "a.py:8: Which rows."]
    RECIPE["count_module"]("a.py", PLAIN, none)
    RECIPE["count_page"]("a.md", "The table is here.", none)
    assert not any(none.values())
