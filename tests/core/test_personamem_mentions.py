"""A count of mentions: which types of PersonaMem's generated questions it solves."""

from collections import defaultdict

import pytest

from alps.tasks.personamem.personas import write_set
from alps.tasks.personamem.release import LETTERS, open_personamem
from alps.tasks.personamem.scores import SEARCHED, TYPES, by_mentions
from tests.endtoend import summary


@pytest.mark.few(1)
@pytest.mark.parametrize(("language", "seed"), [("en", 3), ("en", 11), ("zh", 5)])
def test_a_count_of_mentions_solves_the_types_of_a_search_and_no_other(language, seed, tmp_path):
    write_set(tmp_path, personas=6, size="32k", seed=seed, language=language)
    files = open_personamem(tmp_path, "32k", name="made")
    right = defaultdict(list)
    for question in files.read():
        places = by_mentions(files, question)
        right[question.type].append((question.gold in places) / len(places))
    shares = {kind: sum(marks) / len(marks) for kind, marks in right.items()}
    assert {kind for kind, share in shares.items() if share >= 0.9} == SEARCHED
    assert max(share for kind, share in shares.items() if kind not in SEARCHED) <= 0.5
    assert set(shares) == set(TYPES)


def test_a_run_shows_search_apart_from_understanding(alps, tmp_path):
    done = alps("run", "task=personamem", "model=mentions", "size=32k", "out=out")
    assert done.returncode == 0, done.stderr
    scores = summary(tmp_path / "out")["tracks"]["personamem"]["scores"]
    assert scores["search"]["value"] >= 0.9
    assert scores["understanding"]["value"] <= 1 / len(LETTERS) + 0.1
    assert scores["search"]["n"] + scores["understanding"]["n"] == scores["accuracy"]["n"]
    assert "retrieval types" in alps("show", "out").stdout
