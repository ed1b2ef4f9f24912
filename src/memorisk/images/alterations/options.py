"""Options that name kinds and families of copies; their help lists what the registry has."""

from typing import Annotated

from cyclopts import Parameter

from memorisk.images.alterations.families import FAMILIES, PLANTED
from memorisk.images.alterations.plants import PLANT_KINDS
from memorisk.runs.options import Words, in_group

PlantKinds = Annotated[
    tuple[str, ...],
    Parameter(consume_multiple=True),
    in_group("statistics", help=f"Kinds of planted copies that a pass covers; by default {', '.join(PLANT_KINDS)}. All "
    "others are tried, too, and decide nothing."),
]  # fmt: skip
PromisedFamilies = Annotated[
    Words,
    Parameter(
        help="Kinds of copies that the guarantee covers: re-identification (another image of the patient), "
        f"{', '.join(FAMILIES)}, each up to a strength if one is given (noise:0.1); copies: all of these but the first;"
        f" {', '.join(PLANTED)}: as `audit synthetic` plants them. By default those, each up to the largest strength, "
        "whose threshold leaves out at most 10 % of new patients; --dry-run shows them."
    ),
]
CopiedFamilies = Annotated[Words, Parameter(help=f"Kinds of copies: {', '.join(FAMILIES)}; by default all.")]
