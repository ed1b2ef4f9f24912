"""Fixed texts of pages: a file ``wording.toml`` in the package that shows them, read once.

A reader who checks the claims of a report reads that file. Code names each text once and fills in its numbers.
"""

import tomllib
from importlib import resources
from typing import Any


def read_texts(package: str) -> dict[str, Any]:
    """Read the texts of a package by their names; a list or a table for texts that belong together.

    Args:
        package: Name of the package.
    """
    return tomllib.loads(resources.files(package).joinpath("wording.toml").read_text(encoding="utf-8"))
