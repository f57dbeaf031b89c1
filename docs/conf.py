"""How Sphinx builds these pages: `make docs`, into build/docs, with warnings as errors."""

import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]

project = "elmo-bench"
html_title = project
copyright = "the authors of elmo-bench, Apache License 2.0"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
]
exclude_patterns = ["README.md"]
myst_heading_anchors = 3  # FILE.md#heading is checked, too
myst_enable_extensions = ["deflist", "colon_fence"]
highlight_language = "text"
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
autodoc_typehints = "description"
autodoc_member_order = "bysource"
default_role = "code"  # of single backticks in docstrings


def levels(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Sphinx makes headings of captions, but says no level, which screen readers ask for."""
    for part in ("body", "furo_navigation_tree"):
        if part in context:
            context[part] = context[part].replace(
                ' role="heading"', ' role="heading" aria-level="2"'
            )


def setup(app: Any) -> None:
    import from_conf  # which lies beside this file

    app.connect("source-read", from_conf.fill)
    app.connect("html-page-context", levels, priority=900)  # after the theme
