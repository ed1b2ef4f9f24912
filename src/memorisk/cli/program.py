"""The program as cyclopts knows it: every command of `commands`, settings of a file, and the help of a command.

Nothing heavier than cyclopts is imported until a command runs.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

from cyclopts import (
    UNSET,
    App,
    ArgumentCollection,
    CycloptsError,
    Group,
    MissingArgumentError,
    Parameter,
    UnusedCliTokensError,
)

from memorisk import __version__
from memorisk.cli.commands import COMMANDS, CONFIG_HELP, EVERYWHERE, GROUPS, NAME, SUMMARY
from memorisk.cli.help import HelpFormatter, print_help
from memorisk.cli.settings import read_yaml, set_function_folder
from memorisk.runs.errors import InputError, UsageError, one_line

app = App(
    name=NAME,
    version=__version__,
    help=SUMMARY,
    help_format="plaintext",
    result_action="return_value",
    suppress_keyboard_interrupt=False,
    default_parameter=Parameter(negative_iterable=""),
    help_formatter=HelpFormatter(),
)
_GROUPS = {name: App(name=name, help=line) for name, line in GROUPS.items()}
for _group in _GROUPS.values():
    app.command(_group)
for _name, (_place, _line) in COMMANDS.items():
    _first, _, _last = _name.rpartition(" ")
    _GROUPS.get(_first, app).command(f"memorisk.cli.{_place}", name=_last, help=_line)


def _register_kinds(words: list[str]) -> None:
    """Add the audits that have no line in `COMMANDS`, where the words may name one: packages are searched only then."""
    if words[:1] != ["audit"] or " ".join(words[:2]) in COMMANDS:
        return
    from memorisk.cli.audits import command_of
    from memorisk.report.kinds import KINDS

    for kind in KINDS.values():
        group, _, name = kind.command.rpartition(" ")
        if group == "audit" and name not in _GROUPS[group]:
            _GROUPS[group].command(command_of(kind), name=name)


READ = ("--images", "--train", "--held-out", "--probes", "--calibration", "--weights")
"""Options that are text and name files all the same: they may hold a URL, a name or several names."""
app.meta.group_parameters = Group(EVERYWHERE, sort_key=0)
app.meta.suppress_keyboard_interrupt = False


@app.meta.default
def _with_config(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    config: Annotated[Path | None, Parameter(help=CONFIG_HELP)] = None,
) -> Any:
    """Read settings from a file; flags override it."""
    if config is not None and tokens[:1] == ("study",):  # a study's file is its input and no list of flags
        tokens, config = (*tokens, "--config", str(config)), None
    settings = [] if config is None else [_Settings(config)]
    if settings and tokens[:2] == ("audit", "feature"):  # models have no flag, so that a file cannot name them
        models = settings[0].values.pop("models", None) or []
        if len(tokens) == 2 or tokens[2].startswith("-"):
            tokens = (*tokens[:2], *map(str, models), *tokens[2:])
    app.config = [*settings, refuse_fractions, refuse_empty_paths]
    try:
        command, bound, _ = app.parse_args(tokens, exit_on_error=False, print_error=False)
        from memorisk.cli.urls import local_arguments

        with local_arguments(bound.arguments, help_command(app.parse_commands(tokens)[0])) as arguments:
            bound.arguments.update(arguments)
            return command(*bound.args, **bound.kwargs)
    finally:
        app.config = None


def help_command(words: Sequence[str]) -> str:
    """Return what shows the help of a command, as in ``memorisk audit losses --help``.

    Args:
        words: Words of the command; empty where none is known.
    """
    return " ".join((NAME, *words, "--help"))


_NO = ("false", "f", "no", "n", "0")


class _Settings:
    """Settings of a file, for the command that runs."""

    def __init__(self, path: Path) -> None:
        self.path, self.values = path, read_yaml(path)

    def __call__(self, command: App, names: tuple[str, ...], arguments: ArgumentCollection) -> None:
        """Fill in what the command line left open; the user's own functions may lie next to the file."""
        if any("--python-path" in argument.names for argument in arguments):
            set_function_folder(self.values, "python-path", self.path)
        truth = {name for argument in arguments if argument.hint is bool for name in argument.names}
        for key, value in self.values.items():
            if f"--{key}" in truth and not isinstance(value, bool):
                raise InputError(f"--config {self.path}: {key} is {value!r}; give true or false, without quotes")
        nested: dict[str, Any] = self.values
        for name in reversed(names):  # a key may be named like another command (images): these belong to this one
            nested = {name: nested}
        from cyclopts.config import Dict

        Dict(nested, source=str(self.path), use_commands_as_keys=True)(command, names, arguments)
        self._refuse_code_in_a_dry_run(arguments)

    def _refuse_code_in_a_dry_run(self, arguments: ArgumentCollection) -> None:
        """Refuse a dry run that would run a function which this file names: a plan may be made of a file from others.

        A dry run draws a batch from a generator; what trains and is drawn from elsewhere is only read there.
        """
        tokens = {argument.name: argument.tokens for argument in arguments}
        planned = any(token.value.lower() not in _NO for token in tokens.get("--dry-run", ()))
        for token in tokens.get("--generator", ()) if planned else ():
            if token.source == str(self.path) and ":" in token.value and not Path(token.value).exists():
                raise InputError(
                    f"--config {self.path} names the generator {one_line(token.value, 60)}, whose code a dry run would "
                    "run: read that code, and name the generator on the command line"
                )


def refuse_fractions(command: App, names: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Refuse a fraction where a whole number belongs; cyclopts would round it."""
    for argument in arguments:
        if int in (argument.hint, *get_args(argument.hint)):
            for token in argument.tokens:
                if "." in token.value:
                    raise InputError(f"{argument.name} is {one_line(token.value, 60)}; it must be a whole number")


def refuse_empty_paths(command: App, names: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Refuse an empty word where a file or folder belongs; as a `Path` it would be the current folder."""
    for argument in arguments:
        hints = (argument.hint, *get_args(argument.hint))
        if Path in hints or argument.name in READ or (argument.index is not None and argument.show):
            for token in argument.tokens:
                if token.value == "" and token.implicit_value is UNSET:
                    name = argument.name if token.keyword else argument.name.lstrip("-").upper()
                    raise InputError(f"{name} is empty: is a shell variable unset?")


app.meta.config = [refuse_empty_paths]  # --config itself; what a command is given is looked at when it is known


def _shows_help(words: list[str]) -> bool:
    """Show a command's help where the user requests it: its essential options, or with ``--help-all`` every one."""
    place_of_flag = next((place for place, word in enumerate(words) if word in ("--help", "-h", "--help-all")), None)
    path = [] if place_of_flag is None else app.parse_commands(words[:place_of_flag])[1]
    if len(path) < 2 or path[-1].default_command is None:
        words[:] = ["--help" if word == "--help-all" else word for word in words]
        return False
    command = app.parse_commands(words[:place_of_flag])[0]
    path[-1].help = None  # the whole text of its function, not the line that lists show
    everything = "--help-all" in words
    hidden = print_help(app, command, path[-1].assemble_argument_collection(), everything=everything)
    if hidden:
        sys.stdout.write(f"{hidden} more options: memorisk {' '.join(command)} --help-all\n")
    return True


def run(words: list[str]) -> int:
    """Run a command, or show its help, and return its exit code.

    Raises:
        UsageError: The command line takes the words of no command.
    """
    _register_kinds(words)
    try:
        return 0 if _shows_help(words) else int(app.meta(words, exit_on_error=False, print_error=False) or 0)
    except CycloptsError as error:  # its message on one line, and where help is
        message = " ".join(str(error).split())
        if isinstance(error, MissingArgumentError) and error.argument is not None and error.keyword is None:
            message = f"{' '.join(error.command_chain or ())} needs {error.argument.name}, which was not given."
        if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
            rest = error.unused_tokens
            message = f"{len(rest)} word{'s' if len(rest) > 1 else ''} too many: {' '.join(rest)}"
        raise UsageError(f"{one_line(message)} ({help_command(error.command_chain or ())})") from None
