"""The pictures of the README show what the commands print today."""

import importlib.util
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

PICTURES = ROOT / "docs" / "pictures"


def drawing() -> Any:
    spec = importlib.util.spec_from_file_location("drawing_of_pictures", PICTURES / "draw.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown(picture: str) -> list[str]:
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", picture)
    return [re.sub(r"(took&#160;)[\d.]+&#160;m?s", r"\1…", text) for text in texts]


@pytest.mark.release
@pytest.mark.skipif(os.name != "posix", reason="a terminal is opened as POSIX has it")
def test_the_picture_of_a_run_is_what_a_terminal_shows(tmp_path: Path) -> None:
    drawn = drawing().terminal(tmp_path)
    kept = (PICTURES / "run.svg").read_text(encoding="utf-8")
    assert any("Δ&#160;vs.&#160;baseline" in text for text in shown(kept))
    assert shown(drawn) == shown(kept), "make pictures draws it anew"


def test_every_picture_is_on_a_page_and_can_be_told_without_seeing_it() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    named: set[Path] = set()
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for source in re.findall(r'(?:src|srcset)="([^"]+)"', text):
            named.add((page.parent / source).resolve())
        for image in re.findall(r"<img[^>]*>", text):
            assert re.search(r'alt="[^"]{20,}"', image), f"{page.name}: {image}"
    assert named == set(PICTURES.resolve().glob("*.[sp][vn]g"))
