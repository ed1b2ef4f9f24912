"""The first page of the help and the version, byte for byte as cyclopts prints them, before cyclopts is imported."""

import math
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from memorisk import __version__
from memorisk.cli.commands import COMMANDS, CONFIG_HELP, EVERYWHERE, GROUPS, NAME, SUMMARY

if TYPE_CHECKING:
    from rich.console import Console
    from rich.panel import Panel

_FLAGS = {"--help (-h)": "Display this message and exit.", "--version": "Display application version."}
_NARROW = 40


def print_first_page(words: list[str]) -> bool:
    """Print the help or the version and return True; return False where the program has to be loaded.

    The program has to be loaded for the words of a command, and on a terminal so narrow that cyclopts wraps the names.

    Args:
        words: Words of the command line.
    """
    if words == ["--version"]:
        sys.stdout.write(f"{__version__}\n")
        return True
    if words not in ([], ["--help"], ["-h"], ["--help-all"]):
        return False
    from rich.console import Console

    console = Console()
    if console.width >= _NARROW:
        _print_help(console)
    return console.width >= _NARROW


def _print_help(console: "Console") -> None:
    """Print the usage, the commands and the setting that every command has."""
    from rich.text import Text

    lines = {**{name: line for name, (_, line) in COMMANDS.items() if " " not in name}, **GROUPS}
    console.print(Text("Usage: ", style="bold") + Text(f"{NAME} COMMAND [OPTIONS]\n", style="bold"))
    console.print(Text(f"{SUMMARY}\n"))
    console.print(_panel("Commands", {**dict(sorted(lines.items())), **_FLAGS}, console.width))
    console.print(_panel(EVERYWHERE, {"--config PATH": CONFIG_HELP}, console.width))


def _panel(title: str, rows: Mapping[str, str], width: int) -> "Panel":
    """Return a frame around names and what each does."""
    from rich.box import ROUNDED
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="cyan", max_width=math.ceil(width * 0.35))
    table.add_column(overflow="fold")
    for name, line in rows.items():
        table.add_row(name, Text(line))
    return Panel(table, box=ROUNDED, title=title, title_align="left", border_style="none", padding=(0, 1))
