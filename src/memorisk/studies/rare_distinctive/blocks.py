"""Tables of a study as its page shows them: in the paper's layout, and the corrected numbers."""

from collections.abc import Sequence

import pandas as pd

from memorisk.report.blocks import Column, Table
from memorisk.studies.rare_distinctive.parts import StudyTable

CORRECTED = "Corrected. Intervals are 95 %."


def printed(table: StudyTable) -> Table:
    """The table in the paper's layout, every cell a text."""
    columns = [
        Column(source=str(name), heading=str(name), row_heading=i == 0) for i, name in enumerate(table.paper.columns)
    ]
    elsewhere = f"tables/{table.name}_paper.parquet"
    return Table(frame=table.paper, columns=columns, caption="As the paper prints it.", elsewhere=elsewhere)


def corrected(table: StudyTable, columns: Sequence[Column], caption: str = CORRECTED) -> Table:
    """The corrected numbers, some of their columns."""
    elsewhere = f"tables/{table.name}_ours.parquet"
    return Table(frame=with_gaps(table.ours), columns=columns, caption=caption, elsewhere=elsewhere)


def with_gaps(frame: pd.DataFrame) -> pd.DataFrame:
    """Empty texts as missing, which the page shows as a dash."""
    shown = {str(c): [None if isinstance(v, str) and not v else v for v in frame[c]] for c in frame}
    return frame.assign(**{c: v for c, v in shown.items() if any(x is None for x in v)})
