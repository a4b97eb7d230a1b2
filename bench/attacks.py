"""Attack the scores, and hold what the attacks reach against its bounds.

    python bench/attacks.py [letters=new,weak] [data=samples,sample] [KEY=VALUE …]

Writes the predictions of each attack, from the samples alone unless it is called «gold …», runs
them through `alps run` under a judge that obeys our rubrics (bench/obedient.py, whose letters are
named), and prints each score beside its bound. `data` are our samples and the AlpsBench sample
(`ALPS_SAMPLE`), where it is there. `tasks=extraction,…` and `only=WORD` run a part. `models=yes`
also judges the recorded outputs of real models by the letters `old` and `new`, and compares both
with what they had by `old` when bundles still matched. By the same letter they must lose at most
.02: the protocol costs what nobody has earned, and no one else. `models=only` runs nothing else.
`json=FILE` keeps all figures, `write=yes` writes the section of docs/benchmarks.md. Exits 1 on a
missed bound.
"""

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, TextIO

import obedient
from attack_answers import ATTACKS, FAMILIES, LIMITS, LOST, NEAR
from attack_texts import MOST_ITEMS, Attack, Row, Sample, asked_of, memory
from document import Bound, Section, missed, terminal, write_section
from obedient_words import ENGLISH, tokens
from sample import sample_folder

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from alps.systems.resolve import floor_systems, resolve_system  # noqa: E402
from tests import warm  # noqa: E402
from tests.endtoend import finish, start  # noqa: E402

Answers = list[Row]
FILES = ("model_input.jsonl", "reference_output.jsonl")
TASKS = {"task1": "extraction", "task2": "update", "task4": "utilization"}
HEADLINE = {"extraction": "f1", "update": "f1_changed"}
UTILIZATION = ("vra", "cf", "pa", "pf", "ei")
BEFORE: Mapping[str, tuple[float, float | None]] = {
    "sample extraction recorded": (0.218, 0.231),
    "sample update recorded": (0.260, None),
    "unseen extraction claude-sonnet-4.5": (0.228, 0.256),
    "unseen extraction deepseek-v3.2": (0.233, 0.247),
    "unseen extraction gemini-3-flash": (0.228, 0.254),
    "unseen extraction gpt-4.1-mini": (0.187, 0.210),
    "unseen extraction gpt-5.2": (0.218, 0.270),
    "unseen extraction llama-4-maverick": (0.068, 0.091),
    "unseen extraction qwen3-max": (0.247, 0.263),
}
"""Headlines of recorded outputs by commit 2e8c846, under the letter `old`: bundles were `narrower`,
and matched.

The second is of sessions alone whose user writes English, which is all that the letter `new` can
check.
"""
AT_ONCE = 2
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
        done = self.command(
            job.task, f"predictions:{answers}", self.folder / f"{name}-data", job.letter, name
        )
        return list(_scores(job, done))

    def _write(self, job: Job, track: str, folder: Path, answers: TextIO) -> None:
        folder.mkdir(parents=True)
        inputs, golds = (_rows(job.source / "dev" / track / name) for name in FILES)
        for name, rows in zip(FILES, (inputs, golds), strict=True):
            copied = (
                {**row, "benchmark_id": _id(n, row)}
                for n, _ in enumerate(job.attacks)
                for row in rows
            )
            (folder / name).write_text("".join(map(_line, copied)), "utf-8")
        task = next(one for one in _tasks(job.task) if one.track == track)
        for number, attack in enumerate(job.attacks):
            for row, gold in zip(inputs, golds, strict=True):
                given = {**row, "benchmark_id": _id(number, row)}
                answers.writelines(map(_line, _answers(attack, task, given, gold)))

    def command(self, task: str, model: str, source: Path, letter: str, out: str) -> Path:
        """Run the command and return its folder.

        Raises:
            RuntimeError: If it fails otherwise than by too many failed answers.
        """
        judge = (
            # A judge that obeys what it reads would not be admitted, and it is what is measured.
            (f"judge=openai/{letter}", f"judge_api_base={self.url}", "judge_check=no")
            if letter != LEXICAL
            else ("judge=lexical",)
        )
        words = (
            f"task={task}",
            f"model={model}",
            *judge,
            f"data={source}",
            "split=dev",
            f"out={out}",
        )
        started = start(self.folder, "run", *words, OPENAI_API_KEY="sk-loopback-attacks")
        done = finish(started, timeout=1_800)
        if done.returncode not in (0, 1) or not (self.folder / out / "summary.json").is_file():
            raise RuntimeError(f"{out}: exit {done.returncode}\n{done.stderr[-2000:]}")
        return self.folder / out


def _line(row: Row) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def _id(number: int, row: Row) -> str:
    return f"{number:03d}~{row['benchmark_id']}"


def _rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


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
            items = [
                memory(value, number) for number, value in enumerate(made[:MOST_ITEMS], start=1)
            ]
            yield {"benchmark_id": name, "memory_items": items}


def _tracks(source: Path, task: str) -> list[str]:
    folders = sorted(path.name for path in (source / "dev").iterdir())
    return [name for name in folders if TASKS.get(name[:5]) == task]


def _scores(job: Job, out: Path) -> Iterator[Score]:
    """Yield the mean of each attack's records, which is what macro figures are, for each track."""
    of: dict[tuple[int, str], list[Row]] = {}
    for row in _rows(out / "scores.jsonl"):
        number = int(row["benchmark_id"].partition("~")[0])
        of.setdefault((number, row["track"]), []).append(row["scores"])
    for (number, _), rows in sorted(of.items()):
        figures = _means(rows)
        heads = (
            [HEADLINE[job.task]]
            if job.task in HEADLINE
            else [n for n in UTILIZATION if n in figures]
        )
        for head in heads:
            yield Score(
                job.data, job.letter, job.attacks[number], figures[head], {**figures, "of": head}
            )


def _means(rows: Sequence[Row]) -> dict[str, Any]:
    names = sorted({name for row in rows for name in row})
    return {name: fmean(row[name] for row in rows if row.get(name) is not None) for name in names}


def limit_of(score: Score, scores: Sequence[Score]) -> float | None:
    """Return the most that an attack may reach beside the other scores.

    None where nothing is promised.
    """
    of = score.more["of"]

    def beside(other: str) -> float:
        same = (score.data, score.letter, score.attack.task, of, other)
        return next(
            s.value
            for s in scores
            if (s.data, s.letter, s.attack.task, s.more["of"], s.attack.name) == same
        )

    if score.attack.limit == "generic" and of not in ("vra", "cf"):
        return None
    limit = LIMITS.get(score.attack.limit)
    return limit(beside) if limit else None


@dataclass(frozen=True)
class Promise:
    """A bound, and the family of attacks that it belongs to."""

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
            yield _promise(
                f"{task}, {where}: grounding", f"grounding: {title}", NEAR, score.more["grounding"]
            )


def _promise(family: str, title: str, limit: float, value: float) -> Promise:
    held = value <= limit + 1e-9
    return Promise(family, Bound(title, f"≤ {limit:.3f}", f"{value:.3f}", held), value - limit)


def bounds(scores: Sequence[Score]) -> list[Bound]:
    """Return what is promised of every attack."""
    return [promise.bound for promise in promises(scores)]


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
    asked = words.get("data", "samples,sample").split(",")
    if unknown := [name for name in asked if name not in ("samples", "sample")]:
        sys.exit(f"data={unknown[0]}: expected samples, sample, or both with a comma.")
    return {name: known[name] for name in asked if name in known}


def chosen(words: Mapping[str, str]) -> list[Attack]:
    """Return the attacks that are asked for, and those that others are measured by."""
    tasks = words.get("tasks", "extraction,update,utilization").split(",")
    only = words.get("only", "")
    floors = (one for task in tasks for one in _floors(task))
    named = (one for one in (*floors, *ATTACKS) if only in one.name or not one.limit)
    return [one for one in named if one.task in tasks]


def _floors(task: str) -> Iterator[Attack]:
    names = dict.fromkeys(name for one in _tasks(task) for name in floor_systems(one))
    limits = {
        "floor/content-free-fluent": "floor",
        "floor/parrot": "generic",
        "floor/refusal": "generic",
    }
    for name in names:
        yield Attack(name, task, None, limits.get(name, ""), name)


def jobs(words: Mapping[str, str]) -> Iterator[Job]:
    """Yield what is to be run."""
    letters = words.get("letters", "new,weak").split(",")
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


def models(runner: Runner, letters: Sequence[str], folder: Path) -> list[Score]:
    """Judge the recorded outputs of real models.

    Those of the sample, and of the sessions that it has not.
    """
    sample = sample_folder()
    if sample is None:
        return []
    recorded = [
        (
            "sample",
            sample / "benchmark_data",
            task,
            sample / "recorded" / track / "records.jsonl",
            "recorded",
        )
        for track, task in (("task1", "extraction"), ("task2", "update"))
    ]
    full = sample.parent / "alpsbench_full"
    if full.is_dir():
        unseen = _unseen_sessions(full, sample, folder)
        names = sorted(path.name for path in (full / "outputs" / "task1").iterdir())
        records = [(name, full / "outputs" / "task1" / name / "records.jsonl") for name in names]
        recorded += [("unseen", unseen, "extraction", path, name) for name, path in records]
    asked = [(letter, job) for letter in letters for job in recorded]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda each: _recorded(runner, *each), asked))


def _recorded(runner: Runner, letter: str, job: tuple[str, Path, str, Path, str]) -> Score:
    data, source, task, records, name = job
    out = f"model-{data}-{task}-{name}-{letter}"
    inputs = _rows(source / "dev" / _tracks(source, task)[0] / FILES[0])
    known = {row["benchmark_id"]: row for row in inputs}
    kept = runner.folder / f"{out}.jsonl"
    kept.write_text(
        "".join(_line(row) for row in _rows(records) if row["benchmark_id"] in known), "utf-8"
    )
    scores = _rows(
        runner.command(task, f"predictions:{kept}", source, letter, out) / "scores.jsonl"
    )
    in_english = [row for row in scores if _is_english(known[row["benchmark_id"]])]
    figures = _means([row["scores"] for row in scores])
    english = _means([row["scores"] for row in in_english])[HEADLINE[task]]
    more = {
        **figures,
        "of": HEADLINE[task],
        "english": english,
        "in_english": len(in_english),
        "n": len(scores),
    }
    attack = Attack(f"model {name}", task, None, "", "recorded")
    return Score(data, letter, attack, figures[HEADLINE[task]], more)


def _is_english(row: Row) -> bool:
    """Tell whether a fifth of the user's words are small English ones."""
    given = row["input"]
    turns = given.get("dialogue") or given["new_dialogue"]
    words = [word for turn in turns if turn["role"] == "user" for word in tokens(turn["text"])]
    return sum(word in ENGLISH for word in words) >= 0.2 * max(1, len(words))


def _unseen_sessions(full: Path, sample: Path, folder: Path) -> Path:
    """Write the sessions of task 1 that are not in the sample as a data folder of their own."""
    own = {
        row["session_id"] for row in _rows(sample / "benchmark_data" / "dev" / "task1" / FILES[0])
    }
    target = folder / "unseen"
    (target / "dev" / "task1").mkdir(parents=True)
    for name in FILES:
        rows = _rows(full / "benchmark_data" / "dev" / "task1" / name)
        kept = "".join(_line(row) for row in rows if row["session_id"] not in own)
        (target / "dev" / "task1" / name).write_text(kept, "utf-8")
    return target


def losses(scores: Sequence[Score]) -> Iterator[Bound]:
    """Yield what recorded models have lost against `BEFORE`.

    Promised by the same letter, shown by the new one.

    What the new letter takes is the price of a definition: real models bundle, too, and words can't
    tell a paraphrase from an invention.
    """
    for score in scores:
        name = f"{score.data} {score.attack.task} {score.attack.name.removeprefix('model ')}"
        if name in BEFORE:
            everywhere, english = BEFORE[name]
            before, now = everywhere, score.value
            title = f"{name}, {score.more['n']} sessions, {score.letter}"
            if score.letter == "new" and english is not None:
                before, now = english, score.more["english"]
                title = f"{name}, {score.more['in_english']} sessions in English, new"
            bar = f"≤ {LOST} lost" if score.letter == "old" else "shown"
            held = score.letter != "old" or before - now <= LOST + 1e-9
            yield Bound(
                f"{title}: {before:.3f} before", bar, f"{now:.3f}, {before - now:+.3f} lost", held
            )


def table(scores: Sequence[Score]) -> str:
    """Lay the scores out."""
    rows = [("attack", "data", "metric", "letter", "score", "bound", "")]
    for score in scores:
        limit = limit_of(score, scores)
        promised = limit is not None and score.letter in PROMISED
        held = ("met" if score.value <= (limit or 0) + 1e-9 else "MISSED") if promised else ""
        shown = "" if limit is None else f"{limit:.3f}"
        of = str(score.more["of"])
        rows.append(
            (score.attack.name, score.data, of, score.letter, f"{score.value:.3f}", shown, held)
        )
    return terminal(rows)


def section(scores: Sequence[Score], recorded: Sequence[Score]) -> Section:
    """Return the section of the page."""
    text = (
        "What answers reach that nobody has earned, under a scripted judge that follows our "
        "rubrics to the\nletter; `bench/obedient.py` publishes its rules, which read words and not "
        "meaning. Answers are made from the samples\nalone, but for those that begin with gold. Of "
        "each family of attacks the one is shown that comes nearest to its bound;\nthe command "
        "prints all. Recorded outputs of real models are held against what they had when bundles "
        "still matched."
    )
    promised = [*worst(scores), *losses(recorded)]
    return Section(
        "attacks", "Attacks", text, promised, "python bench/attacks.py models=yes write=yes"
    )


def main() -> int:
    """Attack as the arguments say."""
    words = dict(word.partition("=")[::2] for word in sys.argv[1:])
    allowed = {"letters", "data", "only", "tasks", "models", "write", "json"}
    if unknown := sorted(set(words) - allowed):
        sys.exit(f"{unknown[0]}: not a word of this benchmark ({', '.join(sorted(allowed))}).")
    known = (*obedient.LETTERS, LEXICAL)
    if wrong := [one for one in words.get("letters", "new").split(",") if one not in known]:
        sys.exit(f"letters={wrong[0]}: expected some of {', '.join(known)}.")
    with tempfile.TemporaryDirectory() as name, obedient.serving() as url:
        runner = Runner(Path(name), url)
        try:
            scores = everything(words, runner) if words.get("models") != "only" else []
            recorded = models(runner, ("old", "new"), Path(name)) if words.get("models") else []
        finally:
            warm.stop()
    promised = [*bounds(scores), *losses(recorded)]
    print(table([*scores, *recorded]))
    print(*missed(promised) or ["Every bound is held."], sep="\n")
    if words.get("json"):
        Path(words["json"]).write_text(
            json.dumps([_figures(one) for one in (*scores, *recorded)], indent=1), "utf-8"
        )
    if words.get("write"):
        write_section(section(scores, recorded))
    return 1 if missed(promised) else 0


def _figures(score: Score) -> Row:
    kept = {name: value for name, value in score.more.items() if name != "of"}
    labels = {
        "attack": score.attack.name,
        "task": score.attack.task,
        "data": score.data,
        "letter": score.letter,
    }
    return {**labels, "metric": score.more["of"], "value": score.value, "scores": kept}


if __name__ == "__main__":
    sys.exit(main())
