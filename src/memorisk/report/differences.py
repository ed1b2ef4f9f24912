"""How the files of a release differ from those that were audited, in words. Needs Python's own library alone."""

from collections.abc import Mapping

from memorisk.runs.errors import one_line

_SHOWN = 3


def differences(known: Mapping[str, str], found: Mapping[str, str]) -> str | None:
    """Name the files that were added, taken away or changed.

    Args:
        known: SHA-256 of each file by its name, as it was audited.
        found: Likewise, as it is.

    Returns:
        A phrase; None where there is no difference.
    """
    told = {
        "not among the files that were audited": sorted(found.keys() - known.keys()),
        "missing": sorted(known.keys() - found.keys()),
        "changed": sorted(name for name in found.keys() & known.keys() if found[name] != known[name]),
    }
    said = [f"{_listed(names)} {'is' if len(names) == 1 else 'are'} {what}" for what, names in told.items() if names]
    return "; ".join(said) or None


def _listed(names: list[str]) -> str:
    head = ", ".join(one_line(name, 80) for name in names[:_SHOWN])
    return head if len(names) <= _SHOWN else f"{head} and {len(names) - _SHOWN:,} more"
