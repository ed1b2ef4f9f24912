"""``memorisk view``: arguments, handed on. Nothing heavy is loaded before."""

import sys
from pathlib import Path


def view(*places: Path, port: int = 0) -> int:
    """Look at runs, and judge pairs of images, in the browser of this machine.

    Prints a link that opens on this machine alone, for people who have the link. Ctrl-C ends it. Nothing of a run is
    changed but for the review that you write.

    Parameters
    ----------
    places
        Run folders, or folders that hold some; by default the current folder.
    port
        Port on this machine; 0 for any that is free.
    """
    from memorisk.view.server import serve

    def say(link: str) -> None:
        """Print the link at once, also into a pipe."""
        sys.stdout.write(f"{link}\n")
        sys.stdout.flush()
        sys.stderr.write("Open the link in a browser on this machine; Ctrl-C ends memorisk view.\n")

    try:
        serve(places or (Path(),), port=port, say=say)
    except KeyboardInterrupt:  # how it is meant to end
        return 0
    return 0
