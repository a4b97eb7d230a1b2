"""A budget of tokens holds for every memory, and what was shown is measured."""

from dataclasses import replace

import pytest

from alps import evaluate
from alps.ext.memory.built_in import Turns
from alps.ext.memory.protocol import Hit
from alps.ext.memory.store import cut
from tests.endtoend import rows, summary

BUDGET = 256
PERSONAMEM = {"task": "personamem", "size": "32k", "limit": 6, "k": 50}


class LongBest(Turns):
    """Returns everything that a user said as its best memory."""

    def __init__(self):
        super().__init__("bm25")

    def search(self, user, query, k, at):
        whole = "\n".join(hit.text for hit in self.memories(user))
        hits = super().search(user, query, k, at)
        return [replace(hit, text=f"{hit.text}\n{whole}") for hit in hits[:1]] + hits[1:]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "words",
    [
        {**PERSONAMEM, "memory": f"python:{__name__}:LongBest"},
        {**PERSONAMEM, "memory": "bm25"},
        {**PERSONAMEM, "memory": "full"},
        {**PERSONAMEM, "memory": "last:3"},
        {"task": "utilization", "ability": "pa", "limit": 6, "memory": "oracle"},
        {"task": "utilization", "ability": "pa", "limit": 6, "memory": "placebo"},
    ],
    ids=lambda words: words["memory"].rpartition(":")[2],
)
def test_no_memory_shows_more_than_the_budget(words, tmp_path):
    evaluate(**words, model="rules", max_context_tokens=BUDGET, out=str(tmp_path / "run"))
    noted = sorted(row["shown"]["tokens"] for row in rows(tmp_path / "run" / "predictions.jsonl"))
    assert BUDGET // 2 < noted[-1] <= BUDGET
    (track,) = summary(tmp_path / "run")["tracks"].values()
    assert track["tokens_shown"] == {"median": noted[2], "p95": noted[-1], "most": noted[-1]}


@pytest.mark.parametrize(
    ("texts", "budget", "shown", "left_out"),
    [
        # A text takes its bytes and four more: what separates it from the next.
        (["a" * 12, "b" * 12], 8, ["a" * 12, "b" * 12], 0),
        (["a" * 12, "b" * 12], 7, ["a" * 12, "b" * 8], 1),
        (["a" * 400, "b"], 7, ["a" * 24], 2),
        (["", "b"], 7, ["", "b"], 0),
        (["说说"], 2, ["说"], 1),
        (["说说"], 1, [], 1),
        (["a"] * 50, 10, ["a"] * 8, 42),
    ],
)
def test_hits_are_cut_to_the_budget(texts, budget, shown, left_out):
    part = cut([Hit(str(n), text) for n, text in enumerate(texts)], budget)
    assert list(part.memories) == shown
    assert part.left_out == left_out
    assert part.tokens <= budget
