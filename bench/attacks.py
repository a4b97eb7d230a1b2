"""Attack the scores, and hold what the attacks reach against its bounds.

    python bench/attacks.py [letters=new,weak] [data=samples,sample] [tasks=…] [only=WORD]

Writes the predictions of each attack, from the samples alone unless it is called «gold …», runs
them through `alps run` under a judge that obeys our rubrics (bench/obedient.py, whose letters are
named), and prints each score beside its bound. `data` are our samples and the AlpsBench sample
(`ALPS_SAMPLE`), where it is there. `tasks=extraction,…` and `only=WORD` run a part; `write=yes`
writes the section of bench/RESULTS.md. Exits 1 on a missed bound.
"""

import json
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, TextIO

import obedient
import obedient_words
from attack_answers import ATTACKS, FAMILIES, LIMITS, NEAR
from attack_texts import MOST_ITEMS, Attack, Row, Sample, asked_of, memory
from document import Bound, Section, finish, terminal
from words import read_words, rows, sample_folder, some_of

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from alps.systems.resolve import floor_systems, resolve_system  # noqa: E402
from tests import warm  # noqa: E402
from tests.endtoend import finish as ended  # noqa: E402
from tests.endtoend import start  # noqa: E402
from tests.loopback import Answer, serve  # noqa: E402

Answers = list[Row]
FILES = ("model_input.jsonl", "reference_output.jsonl")
TASKS = {"task1": "extraction", "task2": "update", "task4": "utilization"}
HEADLINE = {"extraction": "f1", "update": "f1_changed"}
UTILIZATION = ("vra", "cf", "pa", "pf", "ei")
AT_ONCE = 2
WORDS = {"letters": "new,weak", "data": "samples,sample", "only": ""}
WORDS |= {"tasks": ",".join(TASKS.values())}
LEXICAL = "lexical"
"""The embedded judge, in the place of a letter."""
PROMISED = ("new", "broken")
"""Letters under which bounds are promised: `weak` shows what the protocol stops without the judge.
"""


@dataclass(frozen=True)
class Score:
    """What an attack reached; `value` is the headline, `more` the other scores looked at."""

    data: str
    letter: str
    attack: Attack
    value: float
    more: Mapping[str, float]


@dataclass(frozen=True)
class Job:
    """Attacks on one track's task that one command judges, each on samples of its own."""

    data: str
    source: Path
    task: str
    letter: str
    attacks: tuple[Attack, ...]


class Runner:
    """Runs attacks in a folder, under the judge at an address."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url

    def run(self, job: Job) -> list[Score]:
        """Run attacks, with every sample once for each in the data.

        The id of a sample begins with the number of its attack.
        """
        name = f"{job.data}-{job.task}-{job.letter}"
        answers = self.folder / f"{name}.jsonl"
        with answers.open("w", encoding="utf-8") as file:
            for track in _tracks(job.source, job.task):
                self._write(job, track, self.folder / f"{name}-data" / "dev" / track, file)
        data = self.folder / f"{name}-data"
        done = self.command(job.task, f"predictions:{answers}", data, job.letter, name)
        return list(_scores(job, done))

    def _write(self, job: Job, track: str, folder: Path, answers: TextIO) -> None:
        folder.mkdir(parents=True)
        inputs, golds = (rows(job.source / "dev" / track / name) for name in FILES)
        for name, given in zip(FILES, (inputs, golds), strict=True):
            with (folder / name).open("w", encoding="utf-8") as file:
                for n, _ in enumerate(job.attacks):
                    file.writelines(_line({**row, "benchmark_id": _id(n, row)}) for row in given)
        task = next(one for one in _tasks(job.task) if one.track == track)
        for number, attack in enumerate(job.attacks):
            for row, gold in zip(inputs, golds, strict=True):
                asked = {**row, "benchmark_id": _id(number, row)}
                answers.writelines(map(_line, _answers(attack, task, asked, gold)))

    def command(self, task: str, model: str, source: Path, letter: str, out: str) -> Path:
        """Run the command and return its folder.

        Raises:
            RuntimeError: If it fails otherwise than by too many failed answers.
        """
        # A judge that obeys what it reads would not be admitted, and it is what is measured.
        judge = [f"judge=openai/{letter}", f"judge_api_base={self.url}", "judge_check=no"]
        if letter == LEXICAL:
            judge = ["judge=lexical"]
        asked = ["run", f"task={task}", f"model={model}", f"data={source}", "split=dev"]
        more = {"OPENAI_API_KEY": "sk-loopback-attacks", "ALPS_PROGRESS": "off"}
        started = start(self.folder, *asked, *judge, f"out={out}", **more)
        done = ended(started, timeout=1_800)
        if done.returncode not in (0, 1) or not (self.folder / out / "summary.json").is_file():
            raise RuntimeError(f"{out}: exit {done.returncode}\n{done.stderr[-2000:]}")
        return self.folder / out


def _line(row: Row) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def _id(number: int, row: Row) -> str:
    return f"{number:03d}~{row['benchmark_id']}"


def _tasks(name: str) -> Sequence[Any]:
    from alps.tasks import load_tracks

    return load_tracks(name)


def _answers(attack: Attack, task: Any, row: Row, gold: Row) -> Iterator[Row]:
    """Yield what an attack answers to a row: one answer for each of its samples."""
    read = task.read_sample(row, gold)
    named = {one.benchmark_id: one for one in (read if isinstance(read, list) else [read])}
    for name, given in asked_of(row):
        if attack.make is None:
            answer = resolve_system(attack.model, task).answer_at_once(task, named[name])
            yield {"benchmark_id": name, **answer.prediction}
            continue
        made = attack.make(Sample(name, given, gold["gold"]))
        if attack.task == "utilization":
            yield {"benchmark_id": name, "answer": made}
        else:
            said = enumerate(made[:MOST_ITEMS], start=1)
            items = [memory(value, number) for number, value in said]
            yield {"benchmark_id": name, "memory_items": items}


def _tracks(source: Path, task: str) -> list[str]:
    folders = sorted(path.name for path in (source / "dev").iterdir())
    return [name for name in folders if TASKS.get(name[:5]) == task]


def _scores(job: Job, out: Path) -> Iterator[Score]:
    """Yield the mean of each attack's records, which is what macro figures are, for each track."""
    of: dict[tuple[int, str], list[Row]] = {}
    for row in rows(out / "scores.jsonl"):
        number = int(row["benchmark_id"].partition("~")[0])
        of.setdefault((number, row["track"]), []).append(row["scores"])
    for (number, _), scored in sorted(of.items()):
        figures = _means(scored)
        named = [HEADLINE[job.task]] if job.task in HEADLINE else UTILIZATION
        for head in (name for name in named if name in figures):
            more = {**figures, "of": head}
            yield Score(job.data, job.letter, job.attacks[number], figures[head], more)


def _means(scored: Sequence[Row]) -> dict[str, Any]:
    names = sorted({name for row in scored for name in row})
    return {name: fmean(row[name] for row in scored if row.get(name) is not None) for name in names}


def limit_of(score: Score, scores: Sequence[Score]) -> float | None:
    """Return the most that an attack may reach beside the other scores.

    None where nothing is promised.
    """
    of = score.more["of"]

    def beside(other: str) -> float:
        same = (score.data, score.letter, score.attack.task, of, other)
        named = ((s.data, s.letter, s.attack.task, s.more["of"], s.attack.name) for s in scores)
        return next(s.value for s, name in zip(scores, named, strict=True) if name == same)

    if score.attack.limit == "generic" and of not in ("vra", "cf"):
        return None
    limit = LIMITS.get(score.attack.limit)
    return limit(beside) if limit else None


@dataclass(frozen=True)
class Promise:
    """A bound, the family of attacks that it belongs to, and how far it is passed."""

    family: str
    bound: Bound
    over: float


def promises(scores: Sequence[Score]) -> Iterator[Promise]:
    """Yield what is promised of every attack, and of the free figure of utilization if any."""
    for score in scores:
        if score.letter not in PROMISED:
            continue
        task, limit = score.attack.task, limit_of(score, scores)
        where = f"{score.data}, {score.more['of']}"
        title = f"{score.attack.name} ({where}, {score.letter})"
        if limit is not None:
            family = f"{task}, {where}: {FAMILIES[score.attack.limit]}"
            yield _promise(family, title, limit, score.value)
        if score.attack.limit == "generic" and "grounding" in score.more:
            family, free = f"{task}, {where}: grounding", score.more["grounding"]
            yield _promise(family, f"grounding: {title}", NEAR, free)


def _promise(family: str, title: str, limit: float, value: float) -> Promise:
    bound = Bound(title, f"≤ {limit:.3f}", f"{value:.3f}", value <= limit + 1e-9)
    return Promise(family, bound, value - limit)


def worst(scores: Sequence[Score]) -> list[Bound]:
    """Return the bound of each family of attacks that comes nearest to being missed, or is."""
    families: dict[str, list[Promise]] = {}
    for promise in promises(scores):
        families.setdefault(promise.family, []).append(promise)
    found = []
    for family, members in families.items():
        nearest = max(members, key=lambda promise: promise.over)
        title = f"{family} ({len(members)}): {nearest.bound.what.partition(' (')[0]}"
        found.append(replace(nearest.bound, what=title))
    return found


def sources(words: Mapping[str, str]) -> dict[str, Path]:
    """Return the data folders by name; those that are not there are left out."""
    sample = sample_folder()
    known = {"samples": ROOT / "data" / "samples"}
    if sample is not None:
        known["sample"] = sample / "benchmark_data"
    asked = some_of(words, "data", ("samples", "sample"))
    return {name: known[name] for name in asked if name in known}


def chosen(words: Mapping[str, str]) -> list[Attack]:
    """Return the attacks that are asked for, and those that others are measured by."""
    tasks, only = some_of(words, "tasks", tuple(TASKS.values())), words["only"]
    floors = (one for task in tasks for one in _floors(task))
    named = (one for one in (*floors, *ATTACKS) if only in one.name or not one.limit)
    return [one for one in named if one.task in tasks]


def _floors(task: str) -> Iterator[Attack]:
    names = dict.fromkeys(name for one in _tasks(task) for name in floor_systems(one))
    limits = {"floor/parrot": "generic", "floor/refusal": "generic"}
    limits["floor/content-free-fluent"] = "floor"
    for name in names:
        yield Attack(name, task, None, limits.get(name, ""), name)


def jobs(words: Mapping[str, str]) -> Iterator[Job]:
    """Yield what is to be run."""
    letters = words["letters"].split(",")
    attacks = chosen(words)
    for data, source in sources(words).items():
        for task in dict.fromkeys(one.task for one in attacks):
            of_task = [one for one in attacks if one.task == task]
            for letter in (*letters, "broken"):
                asked = [one for one in of_task if letter in (*letters, *one.letters)]
                if asked and not (letter == "weak" and task == "utilization"):
                    free = [one for one in of_task if one.model == "floor/content-free"]
                    yield Job(data, source, task, letter, tuple(dict.fromkeys((*free, *asked))))


def everything(words: Mapping[str, str], runner: Runner) -> list[Score]:
    """Run all that was asked for, some commands at a time."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [score for scores in pool.map(runner.run, jobs(words)) for score in scores]


def table(scores: Sequence[Score]) -> str:
    """Lay the scores out."""
    shown_rows = [("attack", "data", "metric", "letter", "score", "bound", "")]
    for score in scores:
        limit = limit_of(score, scores)
        promised = limit is not None and score.letter in PROMISED
        held = ("met" if score.value <= (limit or 0) + 1e-9 else "MISSED") if promised else ""
        shown = "" if limit is None else f"{limit:.3f}"
        of = str(score.more["of"])
        figures = (of, score.letter, f"{score.value:.3f}", shown, held)
        shown_rows.append((score.attack.name, score.data, *figures))
    return terminal(shown_rows)


TEXT = """
What answers reach that nobody has earned, under a scripted judge that follows our rubrics to the
letter; `bench/obedient.py` publishes its rules, which read words and not meaning. Answers are
made from the samples alone, but for those that begin with gold. Of each family of attacks the one
is shown that comes nearest to its bound; the command prints all.
"""


def main() -> None:
    """Attack as the arguments say."""
    words = read_words(sys.argv[1:], WORDS)
    some_of(words, "letters", (*obedient_words.LETTERS, LEXICAL))
    judge = serve(lambda body: Answer(obedient.reply(body)), admitted=False)
    with tempfile.TemporaryDirectory() as name, judge as server:
        server.requests = deque(maxlen=0)  # there are tens of thousands
        try:
            scores = everything(words, Runner(Path(name), server.url))
        finally:
            warm.stop()
    print(table(scores), end="\n\n")
    command = "python bench/attacks.py write=yes"
    section = Section("attacks", "Attacks", TEXT, worst(scores), command)
    finish(section, write=words["write"])


if __name__ == "__main__":
    main()
