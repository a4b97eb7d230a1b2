"""Reference rows: recomputed by one command from the public files, equal to the digit."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from alps.errors import AlpsError, DataError, UsageError
from alps.judges.resolve import AGREEMENTS
from alps.leaderboard.references.command import reference_command
from alps.leaderboard.references.rows import REFERENCES, read_references, text_of
from alps.tasks import all_tracks
from tests.conftest import ROOT
from tests.core.test_layout import FILES

SHARED = ROOT.parent / "shared"
PERSONAMEM, ALPSBENCH = SHARED / "personamem_sample", SHARED / "alpsbench_full"
WORDS_ALIKE = 12


def needs(folder: Path) -> Any:
    return pytest.mark.skipif(not folder.is_dir(), reason=f"no {folder.name} beside the checkout")


def verdicts(capsys: Any, *words: object) -> dict[str, dict[str, str]]:
    """Return what the command says of every row, by table."""
    capsys.readouterr()
    reference_command([*map(str, words), "format=json"])
    tables = json.loads(capsys.readouterr().out)["tables"]
    return {table["id"]: table["verdicts"] for table in tables}


def copied(folder: Path, to: Path, *names: str) -> Path:
    for name in names:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        (to / name).write_bytes((folder / name).read_bytes())
    return to


def test_the_file_is_as_the_command_writes_it_and_every_column_is_a_metric_of_ours():
    references = read_references().references
    assert text_of(references) == REFERENCES.read_text("utf-8")
    for table in references.tables:
        for column in table.columns:
            names = {metric.name for metric in all_tracks()[column.track].metrics}
            assert column.metric in names, (table.id, column)
        assert table.ran_by
        assert table.data.name
        assert table.source.place


def test_every_recomputed_figure_has_its_n_and_says_what_its_judge_is_worth():
    recomputed = [one for one in read_references().references.tables if one.recomputed]
    assert len(recomputed) == 3
    for table in recomputed:
        assert table.data.sha256
        assert {row.role for row in table.rows} >= {"system", "baseline"}
        if table.judge is not None:
            assert table.judge.agreement == AGREEMENTS[table.judge.name]
        for row in table.rows:
            lead = row.figures[0]
            assert lead is not None
            assert lead.n
            assert lead.low is not None
            assert lead.low <= lead.value <= lead.high, row
            assert (row.sha256 is not None) == (row.role == "system")
            assert (row.above is not None) == (row.role == "system")
    people = [row for table in recomputed for row in table.rows if row.role == "people"]
    assert len(people) == 1
    assert people[0].anchored is not None


@needs(PERSONAMEM)
def test_published_answers_to_questions_are_recomputed_to_the_digit(capsys, tmp_path):
    found = verdicts(capsys, PERSONAMEM, "check=yes", f"out={tmp_path / 'again.json'}")
    assert list(found) == ["personamem-32k"]
    assert set(found["personamem-32k"].values()) == {"equal"}
    assert len(found["personamem-32k"]) == 9
    assert (tmp_path / "again.json").read_bytes() == REFERENCES.read_bytes()


@needs(PERSONAMEM)
def test_a_figure_that_is_not_what_the_answers_give_fails_the_check(capsys, tmp_path):
    folder = copied(
        PERSONAMEM, tmp_path, "questions_32k.csv", "predictions/pred_32k_none_gpt-4o.csv"
    )
    file = json.loads(REFERENCES.read_text("utf-8"))
    table = next(table for table in file["tables"] if table["id"] == "personamem-32k")
    row = next(row for row in table["rows"] if row["name"] == "GPT-4o, no history")
    row["figures"][0]["value"] = 0.4685
    (tmp_path / "mine.json").write_text(json.dumps(file))
    words = (str(folder), "check=yes", f"file={tmp_path / 'mine.json'}")
    assert reference_command(words) == 1
    said = capsys.readouterr().out
    assert "1 differ" in said
    assert "accuracy: value=0.4685 " in said
    assert "Not in the folder: GPT-4o with" in said.replace("\n", " ")
    # Other answers to the same questions are no copy of the public file.
    answers = folder / "predictions" / "pred_32k_none_gpt-4o.csv"
    kept = answers.read_bytes()
    answers.write_bytes(kept.replace(b",c,b,", b",c,d,"))
    assert answers.read_bytes() != kept
    (tmp_path / "idle").mkdir()
    assert reference_command((str(folder), str(tmp_path / "idle"), "check=yes")) == 1
    shown = capsys.readouterr()
    assert "1 of other data or answers" in shown.out
    assert f"{tmp_path / 'idle'}: nothing in it was recomputed" in shown.err
    answers.write_bytes(kept)
    # Half of the questions are other data: figures are shown, and nothing is called wrong.
    lines = (folder / "questions_32k.csv").read_bytes().splitlines(keepends=True)
    (folder / "questions_32k.csv").write_bytes(b"".join(lines[:200]))
    answers = folder / "predictions" / "pred_32k_none_gpt-4o.csv"
    asked = {line.split(b",")[1] for line in lines[:200]}
    kept = answers.read_bytes().splitlines(keepends=True)
    answers.write_bytes(b"".join(line for line in kept if line.split(b",")[0] in asked))
    found = verdicts(capsys, folder)
    assert set(found["personamem-32k"].values()) == {"other data"}


@needs(ALPSBENCH)
@pytest.mark.parametrize("table", ["alpsbench-extraction", "alpsbench-memory-retrieval"])
def test_outputs_of_a_model_are_recomputed_to_the_digit(capsys, tmp_path, table):
    release = ALPSBENCH / "benchmark_data"
    shutil.copytree(release, tmp_path / "benchmark_data")
    copied(ALPSBENCH, tmp_path, "outputs/task1/qwen3-max/records.jsonl")
    found = verdicts(capsys, tmp_path, f"only={table}")[table]
    assert set(found.values()) == {"equal"}
    assert "qwen3-max" in found
    assert len(found) > 2


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
        for text in own_texts(path):
            assert not theirs.intersection(grams(text)), path
    # The check finds what it is for.
    path = ALPSBENCH / "benchmark_data" / "dev" / "task1" / "model_input.jsonl"
    with path.open(encoding="utf-8") as lines:
        assert theirs.intersection(grams(next(lines)))


def texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return [value] if isinstance(value, str) else []


def own_texts(path: Path) -> list[str]:
    text = path.read_text("utf-8")
    if path.suffix != ".jsonl":
        return [text]
    return [text for line in text.splitlines() for text in texts(json.loads(line))]


def grams(text: str) -> set[int]:
    """Return the words that stand in a row in a text, as hashes."""
    words = re.findall(r"\w+", text.casefold())
    return {hash(tuple(words[n : n + WORDS_ALIKE])) for n in range(len(words) - WORDS_ALIKE + 1)}


def test_a_reference_file_holds_figures_and_names_alone():
    for table in read_references().references.tables:
        for row in table.rows:
            # A name, a file and a hash: no longer than what somebody is called.
            assert len(row.name) <= 60, row.name
            assert set(row.model_dump()) == {
                *("name", "role", "file", "sha256", "figures", "above", "anchored")
            }


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
def test_what_can_not_be_recomputed_is_said_in_a_line(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AlpsError, match=re.escape(said)) as refused:
        reference_command(words)
    assert "\n" not in str(refused.value)


def test_a_file_of_another_form_is_refused_by_its_field(tmp_path):
    file = json.loads(REFERENCES.read_text("utf-8"))
    file["tables"][0]["rows"][0]["figures"].pop()
    (tmp_path / "mine.json").write_text(json.dumps(file))
    with pytest.raises(DataError, match="2 figures, 3 columns"):
        reference_command([str(tmp_path), f"file={tmp_path / 'mine.json'}"])
    file["tables"][0]["rows"][0]["words"] = "a text"
    (tmp_path / "mine.json").write_text(json.dumps(file))
    with pytest.raises((DataError, UsageError), match="no such field"):
        read_references(tmp_path / "mine.json")
