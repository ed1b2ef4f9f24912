"""Generated images among real ones: each would count as a patient's, and be searched for copies of itself."""

from collections.abc import Iterator
from pathlib import Path

from memorisk.audits.generated.image_sets import manifest_of
from memorisk.audits.synthesize.table_three import FINISHED
from memorisk.images.manifest import BUILTIN, Manifest
from memorisk.images.sources.registry import GENERATED
from memorisk.images.store import ImageStore
from memorisk.runs.errors import InputError, one_line

WRITERS = {GENERATED: "generate", FINISHED: "synthesize"}
"""The file that marks a finished folder, and the command that writes it."""


def refuse_generated(what: str, source: Manifest | ImageStore) -> None:
    """Refuse a folder of ``memorisk generate`` or ``synthesize`` among real images.

    Args:
        what: Which real images they are to be.
        source: The images; of any that lie in no folder nothing is known.

    Raises:
        InputError: An image lies in such a folder, at whatever depth.
    """
    for folder in _folders(manifest_of(source)):
        for file, command in WRITERS.items():
            if (folder / file).is_file():
                raise InputError(
                    f"the {what} images hold the folder {one_line(folder)}, which memorisk {command} wrote ({file}): a "
                    "generated image would count as a patient's; leave that folder out"
                )


def _folders(manifest: Manifest) -> Iterator[Path]:
    """Folders in which images lie, those above them up to the root, and the one above that: each once."""
    if manifest.root is None:
        return
    root = manifest.root.absolute()
    yield from (root, root.parent)  # of a generated set's own folder of images
    seen = {root}
    paths = (str(path) for path in manifest.table["path"] if path and not str(path).startswith(BUILTIN))
    for folder in {path.rpartition("/")[0] for path in paths if "/" in path}:
        for above in (root / folder, *(root / folder).parents):
            if above in seen or not above.is_relative_to(root):
                break
            seen.add(above)
            yield above
