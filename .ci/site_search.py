"""Weighs pages in the site's search (a hook of mkdocs, named in mkdocs.yml): a person who searches has a task."""

from collections.abc import Mapping

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

WEIGHTS: Mapping[str, float] = {
    "results/": 0.1,
    **dict.fromkeys(("notebooks/", "architecture.md", "method.md", "deviations.md", "papers-words.md"), 0.5),
}
"""Weight of the pages whose path begins so; other pages have 1."""


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Weigh a page; its text stays as it is."""
    for beginning, weight in WEIGHTS.items():
        if page.file.src_uri.startswith(beginning):
            page.meta["search"] = {"boost": weight}
    return markdown
