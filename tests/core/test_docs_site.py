"""`make docs` builds the documentation as a site whose pages fetch nothing from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import alps
from tests.conftest import ROOT

FETCHED = re.compile(
    r"<(?:script|link|img|source|iframe)\b[^>]*\b(?:src|srcset|href)=\"?(?:https?:)?//"
)

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site, where what builds it is installed."""
    pytest.importorskip("mkdocs", reason="make install brings what builds the documentation")
    folder = tmp_path_factory.mktemp("site")
    # With --quiet --strict would fail for nothing.
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    variables = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        words, cwd=ROOT, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.release
def test_a_page_fetches_nothing_from_elsewhere(site: Path) -> None:
    pages = sorted(site.glob("*.html"))
    assert len(pages) > 10
    fetching = [page.name for page in pages if FETCHED.search(page.read_text(encoding="utf-8"))]
    assert fetching == []
    styles = " ".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert re.search(r"url\([\"']?https?:", styles) is None


@pytest.mark.release
def test_the_reference_describes_every_public_name_and_the_notebook_has_its_tables(
    site: Path,
) -> None:
    page = (site / "api.html").read_text(encoding="utf-8")
    described = set(re.findall(r"<h3 id=\"[\w.]*?(\w+)\"", page))
    assert set(dir(alps)) - described == {"__version__"}
    page = (site / "notebook.html").read_text(encoding="utf-8")
    assert "<td>f1</td><td>0.069</td><td>[0.015, 0.201]</td><td>26</td>" in page
    assert "lexical on matching: FAIL, do not rank systems by F1 with it" in page


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r": ([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert listed == pages | {NOTEBOOK.with_suffix(".md").name}


@pytest.mark.release
def test_the_notebook_shows_what_its_cells_give_today(tmp_path: Path) -> None:
    pytest.importorskip("nbclient", reason="make install brings what executes the notebook")
    again = tmp_path / "again.ipynb"
    words = [sys.executable, str(NOTEBOOK.with_suffix(".py")), str(again)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kept = NOTEBOOK.read_text(encoding="utf-8")
    # A calibration is valid for 180 days from the day on which the notebook is executed.
    now, before = (re.sub(r"\d{4}-\d\d-\d\d", "DAY", it) for it in (again.read_text("utf-8"), kept))
    assert now == before, "make notebook executes it again"
    assert str(Path.home()) not in kept
