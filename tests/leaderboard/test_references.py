"""Reference rows: figures and names alone, and recomputed from the public files to the digit."""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from alps.errors import AlpsError, DataError
from alps.judges.embedded import AGREEMENTS
from alps.leaderboard.references import REFERENCES, read_references
from alps.tasks import all_tracks
from tests.conftest import ROOT
from tests.core.test_layout import FILES

SHARED = ROOT.parent / "shared"
PERSONAMEM, ALPSBENCH = SHARED / "personamem_sample", SHARED / "alpsbench_full"
WORDS_ALIKE = 12


def needs(folder: Path) -> Any:
    return pytest.mark.skipif(not folder.is_dir(), reason=f"no {folder.name} beside the checkout")


@pytest.fixture(scope="module")
def recomputing():
    sys.path.append(str(ROOT / "bench"))  # last: a benchmark may be called as a package is
    try:
        import reference_rows

        yield reference_rows
    finally:
        sys.path.remove(str(ROOT / "bench"))


def copied(folder: Path, to: Path, *names: str) -> Path:
    for name in names:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        (to / name).write_bytes((folder / name).read_bytes())
    return to


def test_the_file_holds_figures_of_our_metrics_and_says_what_each_is_worth(recomputing):
    references = read_references().references
    assert recomputing.text_of(references) == REFERENCES.read_text("utf-8")
    for table in references.tables:
        for column in table.columns:
            names = {metric.name for metric in all_tracks()[column.track].metrics}
            assert column.metric in names, (table.id, column)
        assert table.ran_by
        assert table.source.place
        # A name, a file and a hash: no longer than what somebody is called.
        assert all(len(row.name) <= 60 for row in table.rows)
    recomputed = [one for one in references.tables if one.recomputed]
    assert len(recomputed) == 3
    for table in recomputed:
        assert table.data.sha256
        if table.judge is not None:
            assert table.judge.agreement == AGREEMENTS[table.judge.name]
        for row in table.rows:
            lead = row.figures[0]
            assert lead.n
            assert lead.low is not None
            assert lead.low <= lead.value <= lead.high, row
            assert (row.sha256 is not None) == (row.above is not None) == (row.role == "system")
    (people,) = (row for table in recomputed for row in table.rows if row.role == "people")
    assert people.anchored is not None


@pytest.mark.release
@needs(PERSONAMEM)
def test_published_answers_are_recomputed_to_the_digit(recomputing, capsys, tmp_path):
    again = tmp_path / "again.json"
    assert recomputing.main((str(PERSONAMEM), "check=yes", f"out={again}")) == 0
    assert "9 rows equal to the digit, 0 differ, 0 of other" in capsys.readouterr().out
    assert again.read_bytes() == REFERENCES.read_bytes()


@pytest.mark.release
@needs(PERSONAMEM)
def test_a_figure_that_is_not_what_the_answers_give_fails_the_check(recomputing, capsys, tmp_path):
    name = "predictions/pred_32k_none_gpt-4o.csv"
    folder = copied(PERSONAMEM, tmp_path, "questions_32k.csv", name)
    file, answers = json.loads(REFERENCES.read_text("utf-8")), folder / name
    table = next(table for table in file["tables"] if table["id"] == "personamem-32k")
    row = next(row for row in table["rows"] if row["name"] == "GPT-4o, no history")
    row["figures"][0]["value"] = 0.4685
    (tmp_path / "mine.json").write_text(json.dumps(file))
    assert recomputing.main((str(folder), "check=yes", f"file={tmp_path / 'mine.json'}")) == 1
    said = capsys.readouterr().out
    for words in ("1 differ", "accuracy: value=0.4685 ", "not in the folder: GPT-4o with"):
        assert words in said
    # Other answers to the same questions are no copy of the public file.
    kept = answers.read_bytes()
    answers.write_bytes(kept.replace(b",c,b,", b",c,d,"))
    (tmp_path / "idle").mkdir()
    assert recomputing.main((str(folder), str(tmp_path / "idle"), "check=yes")) == 1
    said = capsys.readouterr().out
    assert "1 of other data or answers" in said
    assert f"{tmp_path / 'idle'}: nothing in it was recomputed" in said
    # Half of the questions are other data: figures are shown, and nothing is called wrong.
    lines = (folder / "questions_32k.csv").read_bytes().splitlines(keepends=True)
    (folder / "questions_32k.csv").write_bytes(b"".join(lines[:200]))
    asked = {line.split(b",")[1] for line in lines[:200]}
    rows = kept.splitlines(keepends=True)
    answers.write_bytes(b"".join(line for line in rows if line.split(b",")[0] in asked))
    recomputing.main([str(folder)])
    said = capsys.readouterr().out
    assert said.count("; other data") == said.count("; ") > 0


@pytest.mark.release
@needs(ALPSBENCH)
@pytest.mark.parametrize("table", ["alpsbench-extraction", "alpsbench-memory-retrieval"])
def test_outputs_of_a_model_are_recomputed_to_the_digit(recomputing, capsys, tmp_path, table):
    shutil.copytree(ALPSBENCH / "benchmark_data", tmp_path / "benchmark_data")
    copied(ALPSBENCH, tmp_path, "outputs/task1/qwen3-max/records.jsonl")
    assert recomputing.main([str(tmp_path), f"only={table}", "check=yes"]) == 0
    said = capsys.readouterr().out
    assert "qwen3-max" in said
    assert said.count("; equal") == said.count("; ") > 2


@pytest.mark.release
@needs(ALPSBENCH)
def test_no_text_of_the_public_files_is_in_the_repository():
    # Of words that stand in a row: a sentence of theirs shares some with no file of ours.
    theirs: set[int] = set()
    for path in sorted(ALPSBENCH.rglob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines()[::25]:
            for text in texts(json.loads(line)):
                theirs.update(grams(text))
    assert len(theirs) > 50_000
    ours = [REFERENCES, *(path for path in FILES if "submissions" in path.parts)]
    ours += [path for path in FILES if path.suffix in (".md", ".py") and "tests" not in path.parts]
    for path in ours:
        text = path.read_text("utf-8")
        lines = text.splitlines() if path.suffix == ".jsonl" else ()
        for own in [one for line in lines for one in texts(json.loads(line))] or [text]:
            assert not theirs.intersection(grams(own)), path
    # The check finds what it is for.
    path = ALPSBENCH / "benchmark_data" / "dev" / "task1" / "model_input.jsonl"
    with path.open(encoding="utf-8") as found:
        assert theirs.intersection(grams(next(found)))


def texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return [value] if isinstance(value, str) else []


def grams(text: str) -> set[int]:
    """Return the words that stand in a row in a text, as hashes."""
    words = re.findall(r"\w+", text.casefold())
    return {hash(tuple(words[n : n + WORDS_ALIKE])) for n in range(len(words) - WORDS_ALIKE + 1)}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name at least one folder"),
        (("nowhere",), "nowhere: no such folder"),
        ((".",), "nothing to recompute; looked for"),
        ((".", "only=paper"), "only=paper: no such table; choose one of alpsbench-extraction"),
        ((".", "file=mine.json"), "mine.json"),
    ],
)
def test_what_can_not_be_recomputed_is_a_line(recomputing, words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AlpsError, match=re.escape(said)) as refused:
        recomputing.main(words)
    assert "\n" not in str(refused.value)


def test_a_file_of_another_form_is_refused_by_its_field(tmp_path):
    for change, said in (
        (lambda row: row["figures"].pop(), "2 figures, 3 columns"),
        (lambda row: row.update(words="a text"), "no such field"),
    ):
        file = json.loads(REFERENCES.read_text("utf-8"))
        change(file["tables"][0]["rows"][0])
        (tmp_path / "mine.json").write_text(json.dumps(file))
        with pytest.raises(DataError, match=said):
            read_references(tmp_path / "mine.json")
