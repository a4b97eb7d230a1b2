"""Nothing of the user's is deleted, cut or written over: a command that finds it in its way names
it, and stops.
"""

import shutil
from pathlib import Path

import pytest

from alps.llm.cache import Cache
from tests.endtoend import files_of, one_line, run
from tests.submissions import SLUG, pack_rules

TORN = b'{"benchmark_id": "mine"}\nnot JSON\nhalf a li'
RULES = ("task=extraction", "model=rules", "limit=1")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loss")
    pack_rules(folder)
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "place"))


def mine(place: Path, files: dict[str, bytes]) -> Path:
    (place / "mine").mkdir()
    for name, content in files.items():
        (place / "mine" / name).write_bytes(content)
    return place / "mine"


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("command", "name"),
    [
        *(("run", name) for name in ("verdicts.jsonl", "calls.jsonl", "summary.json", ".lock")),
        *(("score", name) for name in ("predictions.jsonl", "scores.jsonl")),
    ],
)
def test_a_run_goes_into_no_folder_with_somebodys_files(
    place: Path, command: str, name: str
) -> None:
    folder = mine(place, {name: TORN})
    words = ("run", *RULES) if command == "run" else ("score", "run", "judge=lexical")
    assert f"mine/{name}: not a run folder" in one_line(run(place, *words, "out=mine"))
    assert files_of(folder) == {name: TORN}


def test_a_manifest_of_something_else_is_left_with_what_lies_beside_it(place: Path) -> None:
    before = {"manifest.json": b'{"name": "a web app"}', "calls.jsonl": TORN}
    folder = mine(place, before)
    assert "not the manifest of a run" in one_line(run(place, "run", *RULES, "out=mine"))
    assert files_of(folder) == before


def test_other_files_in_the_folder_of_a_run_stay(place: Path) -> None:
    names = ("notes.md", "predictions.json", "predictions.jsonl.bak", "config.toml")
    others = dict.fromkeys(names, b"# mine")
    folder = mine(place, others)
    for _ in range(2):
        finished = run(place, "run", *RULES, "out=mine")
        assert finished.returncode == 0, finished.stderr
    assert others.items() <= files_of(folder).items()


@pytest.mark.release
def test_a_report_is_written_over_a_report_and_over_nothing_else(place: Path) -> None:
    (place / "thesis.html").write_text("<!doctype html>\n<p>mine")
    (place / "report.html.tmp").write_text("mine")
    told = one_line(run(place, "report", "run", "out=thesis.html"))
    assert "out=thesis.html: this file exists and is not a report" in told
    assert (place / "thesis.html").read_text() == "<!doctype html>\n<p>mine"
    for _ in range(2):
        finished = run(place, "report", "run", "out=report.html")
        assert finished.returncode == 0, finished.stderr
    assert (place / "report.html.tmp").read_text() == "mine"


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["notes.md", "task1/draft.jsonl", ".git/HEAD"])
def test_packing_again_keeps_what_somebody_put_into_the_folder(place: Path, name: str) -> None:
    (place / SLUG / name).parent.mkdir(exist_ok=True)
    (place / SLUG / name).write_text("mine")
    before = files_of(place / SLUG)
    words = ("leaderboard", "submit", "run", "name=Rules of thumb", f"out={SLUG}")
    told = one_line(run(place, *words))
    assert "move it, or choose another out=" in told
    assert files_of(place / SLUG) == before
    (place / SLUG / name).unlink()
    if name.startswith(".git"):
        (place / SLUG / ".git").rmdir()
    finished = run(place, *words)
    assert finished.returncode == 0, finished.stderr


def test_a_file_that_is_no_cache_is_put_aside_and_so_is_the_next(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    texts = [f"mine {number} ".encode() * 1_000 for number in range(3)]
    for text in texts:
        path.write_bytes(text)
        Cache(path).close()
    assert sorted(other.read_bytes() for other in tmp_path.glob("*.broken")) == texts
