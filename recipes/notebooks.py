"""Runs the notebooks of the site from top to bottom, each in an empty folder and a kernel of its own, and writes them.

    python recipes/notebooks.py [NAME ...]

What changes from run to run is left out: times, the kernel's version, and the line below a cell that says how far an
audit is. The same processor gives the same bytes.
"""

import argparse
import os
import tempfile
from pathlib import Path
from unittest.mock import patch

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "notebooks"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
PLAIN_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "COLUMNS": "100", "HF_HUB_OFFLINE": "1"}


def run(notebook: NotebookNode, folder: Path) -> NotebookNode:
    """Run every cell of a notebook anew.

    Args:
        notebook: It gets the outputs.
        folder: Empty; the notebook runs in its folder ``work``, what is kept between runs lies beside that.

    Returns:
        The notebook, without what changes from run to run.
    """
    work = folder / "work"
    work.mkdir()
    own = {"MEMORISK_CACHE": "store", "IPYTHONDIR": "ipython", "JUPYTER_RUNTIME_DIR": "jupyter", "MPLCONFIGDIR": "mpl"}
    with patch.dict(os.environ, PLAIN_ENVIRONMENT | {name: str(folder / place) for name, place in own.items()}):
        os.environ.pop("MPLBACKEND", None)  # the kernel's own shows figures below their cells
        place = {"metadata": {"path": str(work)}}
        NotebookClient(notebook, timeout=900, kernel_name="python3", resources=place).execute()
    return tidied(notebook)


def tidied(notebook: NotebookNode) -> NotebookNode:
    """The notebook without times, versions and outputs that show nothing."""
    notebook.metadata = NotebookNode(kernelspec=KERNEL, language_info={"name": "python"})
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number}", NotebookNode()
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("data") != {"text/plain": ""}]
            for output in cell.outputs:
                output.pop("transient", None)
    return notebook


def main() -> None:
    """Run the notebooks that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
    parser.add_argument("names", nargs="*", choices=[*names, []], metavar="NAME", help=f"of {', '.join(names)}")
    for name in parser.parse_args().names or names:
        path = FOLDER / f"{name}.ipynb"
        with tempfile.TemporaryDirectory() as folder:
            notebook = run(nbformat.read(path, as_version=4), Path(folder))
        nbformat.write(notebook, path)
        print(path.relative_to(FOLDER.parents[1]))


if __name__ == "__main__":
    main()
