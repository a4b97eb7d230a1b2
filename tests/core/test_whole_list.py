"""F1 of the whole list never stands without what returning the old list gets on it."""

import re

import pytest

from tests.tracks import alps_here, track_of


@pytest.fixture(scope="module")
def updated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("updated")
    ran = alps_here("run", "task=update", "model=rules", f"out={folder / 'run'}")
    assert ran.code == 0, ran
    return folder, alps_here("show", folder / "run").out


def test_the_table_shows_doing_nothing_right_below_the_whole_list(updated):
    folder, printed = updated
    no_op = track_of(folder / "run", "task2")["floors"]["floor/no-op"]["scores"]["f1"]
    lines = printed.splitlines()
    place = next(n for n, line in enumerate(lines) if "F1 of the whole list" in line)
    name, score, *_ = lines[place + 1].split()
    assert name == "floor/no-op"
    assert score == f"{no_op['value']:.3f}".lstrip("0")
    assert lines[place + 1].split()[-1] == str(no_op["n"])


def test_the_board_has_it_in_the_same_column(updated):
    folder, _ = updated
    entry = folder / "submissions" / "rules-2026-01-31"
    said = ("name=Rules", "date=2026-01-31", f"out={entry}")
    assert alps_here("leaderboard", "submit", folder / "run", *said).code == 0
    built = alps_here(
        "leaderboard", "build", f"submissions={entry.parent}", f"out={folder / 'site'}"
    )
    assert built.code == 0, built
    page = (folder / "site" / "update.html").read_text(encoding="utf-8")
    no_op = track_of(folder / "run", "task2")["floors"]["floor/no-op"]["scores"]["f1"]["value"]
    row = next(row for row in re.findall(r"<tr.*?</tr>", page, re.DOTALL) if "floor/no-op" in row)
    assert f"{no_op:.3f}".lstrip("0") in row
