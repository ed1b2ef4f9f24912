"""Puts pages of results last in the site's search (a hook of mkdocs, named in mkdocs.yml): who searches has a task."""

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

RESULTS = "results/"
WEIGHT = 0.1
"""Weight of a page of results beside that of a page that explains a command."""


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Weigh pages of results less; their text stays as it is."""
    if page.file.src_uri.startswith(RESULTS):
        page.meta["search"] = {"boost": WEIGHT}
    return markdown
