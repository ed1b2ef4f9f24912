"""Makes pages of the notebooks in docs/notebooks (a hook of mkdocs, named in mkdocs.yml).

nbconvert writes each notebook as Markdown, so that code, tables and pictures look as on every other page, in light and
dark, and nothing is fetched. Links lead to the notebook file, here and where the file is read.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter

_PANDAS_LOOK = re.compile(r"<style scoped>.*?</style>\s*|(<table) border=\"1\" class=\"dataframe\"", re.DOTALL)
"""What pandas says of a table's look: here tables look as all others."""


class NotebookPage(File):
    """A notebook that is a page."""

    def is_documentation_page(self) -> bool:
        """Return True: mkdocs itself takes only Markdown for pages."""
        return True


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Exchange each notebook for its page and its pictures.

    Args:
        files: All files of the site.
        config: Of mkdocs.
    """
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        uri = Path(file.src_uri)
        page = NotebookPage(file.src_uri, file.src_dir, config.site_dir, config.use_directory_urls)
        resources = {"output_files_dir": uri.stem}
        text, made = MarkdownExporter().from_filename(str(file.abs_src_path), resources)
        page.content_string = _PANDAS_LOOK.sub(r"\1", text)
        files.remove(file)
        files.append(page)
        for name, data in made["outputs"].items():
            files.append(File.generated(config, str(uri.parent / name), content=data))
