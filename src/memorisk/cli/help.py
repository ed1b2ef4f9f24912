"""The help of a command: its essential options by group, and with `--help-all` every option."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from cyclopts import App, ArgumentCollection

from memorisk.cli.commands import EVERYWHERE
from memorisk.runs.options import MORE

SHORT = 20
"""A command with at most this many options shows all of them."""
_EMPTY = ("False", "()", '""', "None")


class HelpFormatter:
    """Cyclopts' panels, without what a switch says of itself: its default, False, and the flag that repeats it."""

    def __init__(self) -> None:
        self.everything, self.hidden = True, 0
        self.own_config = False
        self.titles: set[str] = set()

    def __call__(self, console: Any, options: Any, panel: Any) -> None:
        """Show a group of options, or count those that the short help hides."""
        from cyclopts.help.formatters import DefaultFormatter

        if self.own_config and panel.title == EVERYWHERE:
            return
        visible = [entry for entry in panel.entries if self.everything or not _is_further(panel, entry)]
        self.hidden += len(panel.entries) - len(visible)
        if not visible:
            return
        for entry in visible:
            text = getattr(entry.description, "primary_renderable", None)
            if text is not None:  # a docstring's line breaks are not the terminal's
                entry.description.primary_renderable = type(text)(" ".join(text.plain.split()))
        entries = [
            entry.copy(
                negative_names=() if entry.default == "False" else entry.negative_names,
                positive_names=() if entry.positional_label else entry.positive_names,
                default=None if entry.default in _EMPTY else _plain(entry.default),
            )
            for entry in visible
        ]
        group = str(panel.title).removesuffix(MORE)
        title = panel.title if group in self.titles else group  # "more" follows what is essential
        self.titles.add(group)
        DefaultFormatter()(console, options, panel.copy(title=title, entries=entries))

    def render_usage(self, console: Any, options: Any, usage: Any) -> None:
        """Show the line of usage as cyclopts does."""
        from cyclopts.help.formatters import DefaultFormatter

        DefaultFormatter().render_usage(console, options, usage)


def _is_further(panel: Any, entry: Any) -> bool:
    """Return whether the short help leaves an option out: in a further group, or a part of another option (a.b)."""
    return str(panel.title).endswith(MORE) or any("." in name for name in entry.positive_names)


def _plain(default: str | None) -> str | None:
    """Return default values of several words in plain writing."""
    return default.strip("()").rstrip(",").replace("'", "") if default and default.startswith("(") else default


def print_help(app: App, command: Sequence[str], arguments: ArgumentCollection, *, everything: bool) -> int:
    """Show a command's help, and count the options that it leaves out.

    Args:
        app: The program, whose help is formatted by a `HelpFormatter`.
        command: The command's words.
        arguments: The command's.
        everything: Show every option, also of a command that has many.
    """
    formatter = app.help_formatter
    assert isinstance(formatter, HelpFormatter)
    formatter.everything, formatter.hidden = everything or len(arguments.filter_by(show=True)) <= SHORT, 0
    formatter.titles.clear()
    formatter.own_config = any("--config" in argument.names for argument in arguments)
    try:
        app.help_print(command)
    finally:
        formatter.everything, formatter.own_config = True, False
    return formatter.hidden


def setting_names() -> set[str]:
    """Return the names of the settings of every command."""
    from memorisk.report.kinds import KINDS, load_part
    from memorisk.studies.detectors.options import BenchDetectorsOptions
    from memorisk.studies.pairs.options import BenchCopiesOptions, BenchReidOptions
    from memorisk.training.engine.options import TrainClassifierOptions
    from memorisk.training.generators.options import GenerateOptions

    audits = [load_part(kind.options) for kind in KINDS.values() if kind.options]
    others = (BenchDetectorsOptions, BenchCopiesOptions, BenchReidOptions, TrainClassifierOptions, GenerateOptions)
    return {field.name for kind in (*audits, *others) for field in fields(kind)}
