"""Short dialogues with two gold memories each, for the benchmarks that need many.

Python bench/short_samples.py.

    python bench/short_samples.py FOLDER COUNT [TURNS]

Writes COUNT of them into FOLDER in the release layout. A benchmark that weighs the processes it
starts lets a process of its own write them, for what it has loaded itself would be counted as
theirs.
"""

import sys
from pathlib import Path
from typing import Any

TURNS = 8
TOWNS, PETS = ("Lyon", "Porto", "Graz", "Turku", "Cork"), ("beagle", "tabby cat", "parrot", "gecko")


def rows(number: int, turns: int = TURNS) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the input row of a dialogue of so many turns, and its gold row."""
    town, pet = TOWNS[number % len(TOWNS)], PETS[number % len(PETS)]
    ids = {"benchmark_id": f"short_{number}", "session_id": f"s_{number}", "task": "task1"}
    said = (
        f"I live in {town}. I have a {pet}, it is {number} weeks old, and I wonder what we could "
        "do this weekend."
    )
    heard = (
        "How nice! There is a park along the river, and the path through it is flat and shady. " * 3
    )
    dialogue = []
    for turn in range(turns):
        own = {"role": "user", "text": f"{said} ({turn})"}
        dialogue.append({"role": "assistant", "text": heard} if turn % 2 else own)
    about = {"type": "direct", "label": "UNMAPPED", "confidence": 0.95}
    values = (f"Lives in {town}", f"Has a {pet}")
    items = [{"memory_id": f"m{n}", "value": value, **about} for n, value in enumerate(values, 1)]
    return {**ids, "input": {"dialogue": dialogue}}, {**ids, "gold": {"memory_items": items}}


def write_samples(folder: Path, count: int, turns: int = TURNS) -> Path:
    """Write `count` samples as the split `dev` of `folder`; return the folder of their track."""
    from alps.data.release import write_track

    track = folder / "dev" / "task1"
    write_track(track, (rows(number, turns) for number in range(count)))
    return track


if __name__ == "__main__":
    write_samples(Path(sys.argv[1]), *map(int, sys.argv[2:]))
