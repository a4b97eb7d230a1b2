"""Add bench/RESULTS.md, which pages of the documentation link to, to the site.

MkDocs takes this module as a hook.
"""

from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "bench" / "RESULTS.md"
PAGE = "results.md"


def on_files(files: Any, config: Any) -> Any:
    """Add the page to those that MkDocs builds."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, PAGE, content=RESULTS.read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links to the file, and its own links to the documentation, to pages of the site."""
    return markdown.replace("(../bench/RESULTS.md", f"({PAGE}").replace("(../docs/", "(")
