"""docs/architecture.md and its picture name the rooms that there are, in the order of imports."""

import re
from xml.etree import ElementTree

from tests.conftest import ROOT
from tests.core.test_layout import EXTENSION_LAYER, room, spine

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
AT_THE_TOP = {"tasks", "judges", "data"}


def rooms() -> dict[str, str]:
    """Return the rooms of the spine, as people see them in the repository, by their names."""
    inside = {path.parent.name for path in (ROOT / "alps").glob("*/__init__.py")}
    # Of the command line there is one box: its modules are no room of their own.
    names = (inside | AT_THE_TOP) - {*EXTENSION_LAYER, "commands"}
    return {name: f"{name}/" if name in AT_THE_TOP else f"alps/{name}/" for name in names}


def heights() -> dict[str, float]:
    """Return how far below the top of the picture each room stands."""
    root = ElementTree.parse(ROOT / "docs" / "architecture.svg").getroot()
    names = [text for text in root.iter() if text.get("class") == "name"]
    return {text.text or "": float(text.get("y", "")) for text in names}


def test_the_page_and_the_picture_name_every_room_of_the_spine_and_no_other() -> None:
    listed = PAGE.partition("| package |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `([a-z/]+/)` \|", listed, re.MULTILINE)) == set(rooms().values())
    drawn = {name for name in heights() if name.endswith("/") and "," not in name}
    assert drawn == set(rooms().values())


def test_a_room_stands_above_those_that_it_imports() -> None:
    names, shown = rooms(), heights()
    wrong = set()
    for path, imported in spine().items():
        here = names.get(room(path))
        for to in imported:
            other = names.get(to.split(".")[1])
            if here and other and here != other and shown[other] <= shown[here]:
                wrong.add(f"{here} imports {other}")
    assert sorted(wrong) == []


def test_the_page_names_every_extension_and_no_other() -> None:
    folders = {path.parent.name for path in (ROOT / "alps" / "ext").glob("*/__init__.py")}
    listed = PAGE.partition("| extension |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `([a-z_]+)` \|", listed, re.MULTILINE)) == folders


def test_the_page_names_every_method_of_a_part() -> None:
    source = (ROOT / "alps" / "run" / "parts.py").read_text(encoding="utf-8")
    body = source.partition("class RunPart:")[2].partition("\nParts = ")[0]
    methods = set(re.findall(r"def ([a-z]\w*)\(self", body)) - {"aclose"}
    listed = PAGE.partition("| when |")[2].partition("\n\n")[0]
    assert methods == set(re.findall(r"`(\w+)`", listed))
