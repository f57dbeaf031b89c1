"""How Sphinx makes a site of these pages: `make docs`, into build/docs, with warnings as errors.

Its source is the root of the repository, so that links to README.md or RESULTS.md hold here as on
GitHub. Its contents are the lists of docs/index.md.
"""

import re
from typing import Any

project = "elmo-bench"
html_title = project
copyright = "the authors of elmo-bench, Apache License 2.0"
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["*.md", "conf/README.md", "docs/*.md", "examples/README.md", "results/*.md"]
exclude_patterns = [".*", "build", "data", "outputs"]
myst_heading_anchors = 3  # FILE.md#heading is checked, too
suppress_warnings = ["toc.not_included"]
highlight_language = "text"
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
SECTION = re.compile(r"^## (.+)\n\n((?:- .+\n)+)", re.M)
ENTRY = re.compile(r"^- \[(.+?)\]\((.+?)\.md\)", re.M)


def contents(app: Any, page: str, source: list[str]) -> None:
    """Sphinx calls this for each page before it is read: the lists of links become its menu."""
    if page != root_doc:
        return
    for title, links in SECTION.findall(source[0]):
        entries = "\n".join(f"{name} <{target}>" for name, target in ENTRY.findall(links))
        source[0] += f"\n```{{toctree}}\n:caption: {title}\n:hidden:\n\n{entries}\n```\n"


def entry(app: Any, error: Exception | None) -> None:
    """The site's address leads to its first page."""
    refresh = '<meta http-equiv="refresh" content="0; url=docs/index.html">'
    (app.outdir / "index.html").write_text(f"<!doctype html>{refresh}", encoding="utf-8")


def levels(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Sphinx makes headings of captions, but says no level, which screen readers ask for."""
    for part in ("body", "furo_navigation_tree"):
        if part in context:
            context[part] = context[part].replace(
                ' role="heading"', ' role="heading" aria-level="2"'
            )


def setup(app: Any) -> None:
    app.connect("source-read", contents)
    app.connect("build-finished", entry)
    app.connect("html-page-context", levels, priority=900)  # after the theme
