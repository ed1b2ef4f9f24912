"""What the site makes of docstrings (an extension of griffe's, named in mkdocs.yml).

A section ``Example:`` is shown as code, as ``Examples:`` is (Google's style knows the plural alone), and roles such as
``:func:`` are left out.
"""

import re
from typing import Any

import griffe

_SINGULAR = re.compile(r"^(\s*)Example:$", re.MULTILINE)
_ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):(?=`)")


class Docstrings(griffe.Extension):
    """Rewrites each docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for every object that was read from the sources."""
        if obj.docstring:
            obj.docstring.value = _ROLE.sub("", _SINGULAR.sub(r"\1Examples:", obj.docstring.value))
