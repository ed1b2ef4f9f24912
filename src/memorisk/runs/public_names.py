"""Public names of a package, each imported from its module when it is first used."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Args:
        package: Name of the package, its ``__name__``.
        modules: Names that it exports, with spaces between them, by module.
    """
    places = {name: module for module, names in modules.items() for name in names.split()}

    def load(name: str) -> Any:
        """Import a name."""
        if name in places:
            return getattr(import_module(f"{package}.{places[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load, lambda: sorted(places), sorted(places)
