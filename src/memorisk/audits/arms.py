"""Audits side by side in one folder, which differ in the regime of the training, or in the network.

Each arm of a comparison is a whole audit in a folder of its own; the folder above holds the comparison. Loads nothing
heavy, so that the command line can look at a folder before anything else is imported.
"""

from dataclasses import dataclass
from pathlib import Path

from memorisk.runs.errors import InputError, one_line

_PAGES = "memorisk.audits.classifier.pages"


@dataclass(frozen=True)
class Axis:
    """Difference between the arms of a comparison."""

    name: str
    """Name of one arm's kind, which is also the first column of the table."""
    many: str
    """Plural of the name, which is also the key of the rows in the summary."""
    stem: str
    """Name of the table and of the summary in the folder, without their endings."""
    page: str
    """Place of the function that lays out the page, as ``module:function``."""
    screen: str
    """Place of the function that makes the first screen."""

    @property
    def table(self) -> str:
        """File of the table."""
        return f"{self.stem}.parquet"

    @property
    def summary(self) -> str:
        """File of the summary, whose presence marks the comparison."""
        return f"{self.stem}.json"


REGIMES = Axis("regime", "regimes", "defence", f"{_PAGES}.defences:defence_page", f"{_PAGES}.defences:defence_screen")
NETWORKS = Axis(
    "network", "networks", "networks", f"{_PAGES}.networks:network_page", f"{_PAGES}.networks:network_screen"
)
AXES = (REGIMES, NETWORKS)
"""All kinds of comparison."""


def compared_in(folder: Path) -> Axis | None:
    """Return what audits in a folder are compared by; None where it holds no comparison.

    Args:
        folder: Any path, which need not exist.
    """
    try:
        return next((axis for axis in AXES if (folder / axis.summary).is_file()), None)
    except OSError:  # no name for a folder: the audit says so
        return None


def refuse_comparison(folder: Path) -> None:
    """Refuse a folder that holds several audits side by side where a single one is wanted.

    Args:
        folder: A run folder.

    Raises:
        InputError: It holds several; the message names them.
    """
    axis = compared_in(folder)
    if axis is not None and not (folder / "verdict.json").is_file():
        inner = sorted(path.parent.name for path in folder.glob("*/verdict.json"))
        raise InputError(
            f"{one_line(folder)} holds several {axis.many} side by side: name one of {', '.join(inner)} in it"
        )
