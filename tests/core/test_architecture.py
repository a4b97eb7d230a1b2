"""docs/architecture.md and its picture name the rooms that there are, in the order of imports."""

import re
from xml.etree import ElementTree

import pytest

from tests.conftest import ROOT
from tests.core.test_layout import LINKS, SEEN

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def rooms() -> set[str]:
    """Return the folders of the package, as people see them in the repository."""
    inside = {f"alps/{path.parent.name}/" for path in (ROOT / "alps").glob("*/__init__.py")}
    linked = {f"alps/{name}/" for name in LINKS}
    # Of the command line there is one box: its modules are no room of their own.
    return inside - linked - {"alps/commands/"} | {f"{name}/" for name in LINKS}


def heights() -> dict[str, float]:
    """Return how far below the top of the picture each room stands."""
    root = ElementTree.parse(ROOT / "docs" / "architecture.svg").getroot()
    names = [text for text in root.iter() if text.get("class") == "name"]
    return {text.text or "": float(text.get("y", "")) for text in names}


def test_the_page_describes_every_room_and_no_other() -> None:
    assert set(re.findall(r"^\| `([a-z/]+/)` \|", PAGE, re.MULTILINE)) == rooms()


def test_the_picture_shows_every_room_and_no_other() -> None:
    assert {name for name in heights() if name.endswith("/")} == rooms()


@pytest.mark.parametrize("room", sorted(rooms()))
def test_a_room_stands_above_those_that_it_imports(room: str) -> None:
    names = {name.strip("/").removeprefix("alps/"): name for name in rooms()}
    shown = heights()
    used = SEEN[room.strip("/").removeprefix("alps/")] & set(names)
    assert [name for name in used if shown[names[name]] <= shown[room]] == []


def test_the_page_names_every_extension_and_no_other() -> None:
    folders = {path.parent.name for path in (ROOT / "alps" / "ext").glob("*/__init__.py")}
    listed = PAGE.partition("| extension |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `([a-z_]+)` \|", listed, re.MULTILINE)) == folders
