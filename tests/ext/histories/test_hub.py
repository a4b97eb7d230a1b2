"""Sets on a hub of loopback: which files are fetched at a commit, and that they say the same."""

import json

import pytest

from tests.endtoend import one_line, rows, run, summary
from tests.ext.histories.sets import SAMPLES, book
from tests.loopback_hub import serve_hub


@pytest.fixture
def hub(tmp_path):
    with serve_hub() as hub:
        yield hub


def asked(tmp_path, hub, *words):
    place = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home")}
    return run(tmp_path, "run", *words, "model=rules", **place)


def chats_of(size):
    """Return the sample's chats as rows: sessions of messages, and questions as Python has them."""
    found = []
    for folder in sorted((SAMPLES / "beam" / size).iterdir()):
        chat = json.loads((folder / "chat.json").read_text(encoding="utf-8"))
        questions = (folder / "probing_questions" / "probing_questions.json").read_text()
        sessions = []
        for batch in chat:
            said = [message for turn in batch["turns"] for message in turn]
            sessions.append([{"time_anchor": None, **one} for one in said])
        found.append({"chat": sessions, "probing_questions": repr(json.loads(questions))})
    return found


def table(tmp_path, chats, name):
    from datasets import Dataset  # which takes long, and only a few of these tests need it

    path = tmp_path / name
    Dataset.from_list(chats).to_parquet(str(path))
    return path.read_bytes()


def test_beam_is_read_at_a_commit_and_says_what_its_folders_say(tmp_path, hub):
    chats, files = chats_of("100K"), {}
    for place, row in enumerate(chats):
        name = f"100K-0000{place}-of-0000{len(chats)}.parquet"
        files[f"data/{name}"] = table(tmp_path, [row], name)
    files["data/1M-00000-of-00001.parquet"] = b"never asked for"
    commit = hub.push(files, repository="Mohammadta/BEAM")
    hub.push({"data/other.parquet": b"later"}, repository="Mohammadta/BEAM")
    done = asked(tmp_path, hub, "task=beam", f"data=hub@{commit}", "size=100K", "out=run")
    assert done.returncode == 0, done.stderr
    assert {path for _, path in hub.requests if "1M" in path or "other" in path} == set()
    folder = book("beam").entries
    got = rows(tmp_path / "run" / "predictions.jsonl")
    assert [row["benchmark_id"] for row in got] == [one.question.id for one in folder]
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert commit in json.dumps(manifest)
    assert summary(tmp_path / "run")["tracks"]["beam"]["n"] == len(folder)


@pytest.mark.release
@pytest.mark.parametrize(
    ("questions", "said"),
    [(None, "not a Parquet file"), ("import os", "not a Python literal")],
    ids=["no table", "questions that are no literal"],
)
def test_a_table_that_can_not_be_read_is_refused_in_a_line(tmp_path, hub, questions, said):
    content = b"no table"
    if questions is not None:
        row = {**chats_of("100K")[0], "probing_questions": questions}
        content = table(tmp_path, [row], "x.parquet")
    commit = hub.push({"data/100K-0.parquet": content}, repository="Mohammadta/BEAM")
    done = asked(tmp_path, hub, "task=beam", f"data=hub@{commit}", "out=run")
    assert said in one_line(done)


FILES = {
    "longmemeval": ("xiaowu0162/longmemeval-cleaned", "longmemeval_oracle.json"),
    "halumem": ("IAAR-Shanghai/HaluMem", "HaluMem-Medium.jsonl"),
}


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "place"), FILES.items(), ids=FILES)
def test_other_sets_fetch_the_one_file_that_was_chosen(tmp_path, hub, name, place):
    repository, file = place
    files = {file: (SAMPLES / name / file).read_bytes(), "README.md": b"", "large.json": b"{}"}
    commit = hub.push(files, repository=repository)
    done = asked(tmp_path, hub, f"task={name}", f"data=hub@{commit}", "out=run")
    assert done.returncode == 0, done.stderr
    fetched = {path.rpartition("/")[2] for _, path in hub.requests if "/resolve/" in path}
    assert fetched == {file}
    assert summary(tmp_path / "run")["tracks"][name]["n"] == len(book(name).entries)
