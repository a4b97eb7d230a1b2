"""A class of the user's that leaves the working folder: files of the run stay where they were."""

from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.core.test_edited_code import MEMORY, PYTHON
from tests.endtoend import files_of, run, summary
from tests.ext.memory.test_mended_memory import AS_CLASS, SPOKEN
from tests.few import few

MOVES = "import os\nfrom pathlib import Path\nHERE = Path(__file__).parent / 'elsewhere'\n"
SYSTEM = f"""{MOVES}
class AtFirst:
    def __init__(self): os.chdir(HERE)
    def predict(self, sample):
        return Path("answer.txt").read_text()

class Later:
    def predict(self, sample):
        os.chdir(HERE)
        return []

class Async(Later):
    async def predict(self, sample):
        os.chdir(HERE)
        return []
"""
MOVING_MEMORY = MOVES + MEMORY.replace("self.kept = {}", "self.kept = {}; os.chdir(HERE)")
EXTRACTION, UTILIZATION = ("task=extraction", "limit=3"), ("task=utilization", "ability=pa")
RUNS = [
    (*EXTRACTION, "model=python:system:Later"),
    (*EXTRACTION, "model=python:system:Async"),
    (*EXTRACTION, "model=python:system:AtFirst,python:system:Later"),
    (*EXTRACTION, "model=python:system:AtFirst", "engine=processes", "workers=2"),
    ("task=retrieval", "limit=3", "model=python:system:Later"),
    (*UTILIZATION, "limit=3", "model=rules", "memory=python:moving:M"),
    (*UTILIZATION, "limit=3", "model=python:system:AtFirst", f"memory={PYTHON} spoken.py program"),
    (*EXTRACTION, "model=python:system:AtFirst", "judge=recorded:verdicts.jsonl"),
    ("task=personamem", "size=32k", "limit=3", "model=python:system:AtFirst", "memory=bm25"),
]


def folder_of(place: Path) -> Path:
    for name, text in {
        "system.py": SYSTEM,
        "moving.py": MOVING_MEMORY,
        "memory.py": AS_CLASS,
        "spoken.py": SPOKEN,
        "verdicts.jsonl": "",
        "elsewhere/answer.txt": "A",
    }.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text)
    (place / "data").symlink_to(ROOT / "data" / "samples")
    return place


@pytest.mark.few(1)
@pytest.mark.parametrize("words", few([(words,) for words in RUNS], plain={1, 3, 5}))
def test_a_class_that_changes_the_working_folder_moves_nobody_elses_files(words, tmp_path):
    folder_of(tmp_path)
    data = () if "task=personamem" in words else ("data=data",)
    command = ("run", *words, *data, "out=out/mine", "max_failures=100%")
    done = run(tmp_path, *command, ALPS_CACHE="cache")
    assert done.returncode == 0, done.stderr
    assert "out/mine" in done.stdout
    assert str(tmp_path) not in done.stdout
    assert files_of(tmp_path / "elsewhere") == {"answer.txt": b"A"}
    folders = [path.parent for path in (tmp_path / "out").rglob("summary.json")]
    for folder in folders:
        assert all(track["n"] == 3 for track in summary(folder)["tracks"].values())
    assert len(folders) == (2 if "," in words[2] else 1)
