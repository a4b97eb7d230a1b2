"""Parts of extensions on boards: a column of a stranger, and what nothing here can check."""

import json
import shutil

import pytest
from markupsafe import Markup

from alps.extension import Extension, extensions
from alps.leaderboard import parts
from alps.leaderboard.pages.board_table import BoardColumn
from alps.leaderboard.parts import BoardPart
from alps.leaderboard.site import build
from alps.leaderboard.verify import Options, verify
from tests.submissions import changed, forge, said


class Letters(BoardPart):
    """Counts the letters of the model of a system."""

    def columns(self, board):
        return [(BoardColumn("letters", "letters of its model"), letters_of)]


BOARD = Letters()


def letters_of(row):
    return Markup(len(row.system.card.system.model))


@pytest.fixture
def known(monkeypatch):
    """Let there be other extensions than ours."""

    def are(*others):
        monkeypatch.setattr(parts, "extensions", lambda: others)
        parts.part_of.cache_clear()

    yield are
    parts.part_of.cache_clear()


def test_a_column_of_an_extension_stands_on_boards_of_its_runs(honest, tmp_path, known):
    shutil.copytree(honest, tmp_path / "sent" / "honest")
    known(*extensions(), Extension("letters", board=f"{__name__}:BOARD", on_card="model"))
    page = (build(tmp_path / "sent", tmp_path / "site").out / "extraction.html").read_text()
    assert "letters of its model" in page
    row = page[page.index('systems/honest.html"') :].partition("</tr>")[0]
    assert ">5</td>" in row


def test_what_no_extension_can_check_is_refused(shelf, folder, known):
    audit = {"judge": "people", "fingerprint": {}, "sessions": 1, "seed": 1, "scores": {}}
    forge(folder, changed("tracks.task1.audit", audit))
    known()
    found = verify(folder, Options(data=str(shelf.data)))
    assert said(found, "extension").where == "audit"
    assert found.serious
    assert json.dumps(found.as_json())
