"""The page of `alps view`: the records of runs, a searchable line each, written or served.

The page loads an index to search in, and the records in parts. Where it is written, these are files
beside it; where it is served, runs may be under way, and records are read when they are asked for.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alps.errors import RunFolderError, UsageError
from alps.ext.looking.record import build_view, opening_of_sample, record_card
from alps.ext.view.loopback import application_of
from alps.jsonl import Row
from alps.run.opened import AnswerKey, RunFolder, Samples, open_run, read_wanted, state_of
from alps.show.formatting import judge_of, letter_of, metric_title
from alps.show.html import TEMPLATES as REPORT
from alps.show.html import page_environment
from alps.tasks import Task
from alps.tasks.base import texts_of
from alps.tasks.record_parts import AnsweredRecord
from alps.tasks.registry import track_title
from alps.text import whole_number

if TYPE_CHECKING:
    from jinja2 import Template
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

CHUNK = 200
"""Records that are fetched together when one of them is shown."""
_BLOCK = 25 * CHUNK
"""Records whose samples are read from the data at once: 50,000 dialogues would fill the memory."""
_SEARCHED = 600
"""Characters of an answer that are searched: 50,000 whole ones would fill a browser's memory."""
_JOURNALS = ("predictions", "verdicts", "scores")
_RECORD = '{% from "record_view.html" import record with context %}{{ record(card, lead, true) }}'
ASSETS = Path(__file__).with_name("assets")
TEMPLATES = Path(__file__).with_name("templates")
PAGE, INDEX, RECORDS = "index.html", "index.js", "records"
# A page that is read from a file may load scripts beside it, and nothing from elsewhere.
POLICY = (
    "default-src 'none'; style-src 'self' file:; script-src 'self' file:; connect-src 'self'; "
    "img-src data:; form-action 'none'; base-uri 'none'"
)
_MARK = '<meta name="generator" content="alps view">'
_SCRIPT = "text/javascript; charset=utf-8"


@dataclass(frozen=True)
class RecordLine:
    """One record in the list; `outcomes` and `scores` are in the order of the runs.

    `answer` is what is searched: the beginning of every run's answer, or its error. `opening` are
    the first words of its dialogue or query.
    """

    key: AnswerKey
    outcomes: tuple[str, ...]
    scores: tuple[float | None, ...]
    answer: str
    opening: str

    def row(self) -> list[Any]:
        """Return it as the index of the page has it."""
        shown = [None if score is None else round(score, 3) for score in self.scores]
        return [
            track_title(self.key.track),
            str(self.key),
            list(self.outcomes),
            shown,
            self.answer,
            self.opening,
        ]


class RecordLines:
    """The records of some runs, the same record of all of them in one line.

    Args:
        runs: They may be under way; then what is there is shown.
        openings: First words that are known already, by track and id: data stay as they are.
    """

    def __init__(
        self, runs: Sequence[RunFolder], openings: Mapping[tuple[str, str], str] | None = None
    ) -> None:
        self.runs = tuple(runs)
        self.openings = dict(openings or {})
        self._journals: list[dict[str, Mapping[AnswerKey, Row]]] = []
        for run in self.runs:
            self._journals.append({stage: run.rows(stage) for stage in _JOURNALS})
        self.lines = list(self._read())
        self._block = lru_cache(maxsize=2 * len(self.runs))(self._read_block)
        self._template: Template = page_environment().from_string(_RECORD)

    @property
    def chunks(self) -> int:
        """In how many parts the records are fetched."""
        return -(-len(self.lines) // CHUNK)

    def index(self) -> dict[str, Any]:
        """Return what the page lists, searches and filters by."""
        runs = []
        for position, run in enumerate(self.runs):
            about = {"letter": letter_of(position), "name": run.name, "model": run.model}
            runs.append({**about, "judge": judge_of(run), "metrics": _metrics(run)})
        return {"runs": runs, "chunk": CHUNK, "rows": [line.row() for line in self.lines]}

    def chunk(self, number: int) -> list[list[str]]:
        """Return the records of a part as HTML, one for each run that has it, else empty."""
        shown = []
        for place in range(number * CHUNK, min((number + 1) * CHUNK, len(self.lines))):
            key = self.lines[place].key
            shown.append([self._html(run, key, place) for run in range(len(self.runs))])
        return shown

    def _read(self) -> Iterator[RecordLine]:
        keys: dict[AnswerKey, None] = {}
        for journals in self._journals:
            keys |= dict.fromkeys([*journals["scores"], *journals["predictions"]])
        places: dict[str, int] = {}
        for run in self.runs:
            for track in run.tracks:
                places.setdefault(track, len(places))
        self._read_openings(keys)
        for key in sorted(keys, key=lambda key: places.get(key.track, len(places))):
            yield self._line(key)

    def _read_openings(self, keys: Iterable[AnswerKey]) -> None:
        wanted: dict[str, set[str]] = {}
        for key in keys:
            if (key.track, key.id) not in self.openings:
                wanted.setdefault(key.track, set()).add(key.id)
        for run in self.runs:
            for track in run.tracks:
                if not (ids := wanted.get(track)):
                    continue
                first_words = partial(opening_of_sample, run.tasks[track])
                for name, words in read_wanted(run, track, ids, of=first_words).by_id.items():
                    self.openings[track, name] = words
                    ids.discard(name)

    def _line(self, key: AnswerKey) -> RecordLine:
        outcomes: list[str] = []
        scores: list[float | None] = []
        answers: list[str] = []
        for run, journals in zip(self.runs, self._journals, strict=True):
            score, prediction = (journals[stage].get(key) for stage in ("scores", "predictions"))
            known = score is not None or prediction is not None
            outcomes.append(state_of(score, prediction) if known else "")
            lead = run.lead(key.track).name if key.track in run.tracks else ""
            scores.append((score or {}).get("scores", {}).get(lead))
            answers.append(_searched(run.tasks.get(key.track), prediction or {}))
        opening = self.openings.get((key.track, key.id), "")
        return RecordLine(key, tuple(outcomes), tuple(scores), "\n".join(answers), opening)

    def _html(self, run: int, key: AnswerKey, place: int) -> str:
        if not self.lines[place].outcomes[run]:
            return ""
        samples = self._block(run, key.track, place // _BLOCK)
        journals, task = self._journals[run], self.runs[run].tasks[key.track]
        rows = [journals[stage].get(key) for stage in _JOURNALS]
        record = AnsweredRecord(samples.by_id.get(key.id), *rows)
        card = record_card(build_view(key, task, record))
        return self._template.render(card=card, lead=self.runs[run].lead(key.track))

    def _read_block(self, run: int, track: str, block: int) -> Samples:
        lines = self.lines[block * _BLOCK : (block + 1) * _BLOCK]
        wanted = {line.key.id for line in lines if line.key.track == track}
        return read_wanted(self.runs[run], track, wanted)


def _metrics(run: RunFolder) -> dict[str, dict[str, Any]]:
    """Return the headline of each track: its title, and its worst and best value."""
    metrics = {}
    for track in run.tracks:
        lead = run.lead(track)
        ends = [lead.lowest, lead.highest]
        if lead.lower_is_better:
            ends.reverse()
        metrics[track_title(track)] = {"title": metric_title(lead), "ends": ends}
    return metrics


def _searched(task: Task | None, prediction: Row) -> str:
    """Return the beginning of an answer, without its ids, or its error, as one text."""
    content = prediction.get("prediction")
    if content is None or task is None:
        return str(prediction.get("error") or "")[:_SEARCHED]
    return " · ".join(texts_of(task, content))[:_SEARCHED]


def assets() -> dict[str, Path]:
    """Return the files that the page loads whatever its records are, by their names."""
    paths = [*sorted(ASSETS.iterdir()), REPORT / "report.css"]
    return {path.name: path for path in paths}


def page(*, live: bool) -> bytes:
    """Return the page; `live` where a server says when there is more."""
    environment = page_environment(TEMPLATES)
    text = environment.get_template("view.html").render(policy=POLICY, live=live)
    return text.encode(errors="replace")


def index_script(records: RecordLines, version: int = 0) -> bytes:
    """Return the script that gives the page its index; `version` is that of a served page."""
    return _script("alpsIndex", {**records.index(), "version": version})


def chunk_script(records: RecordLines, number: int) -> bytes:
    """Return the script that gives the page a part of the records."""
    return _script(f"alpsRecords({number}, ", records.chunk(number))


def _script(call: str, content: Any) -> bytes:
    # A page that is read from a file can't fetch data: it can only load scripts that bring them.
    opening = call if call.endswith(", ") else f"{call}("
    return f"{opening}{json.dumps(content, ensure_ascii=False)});\n".encode(errors="replace")


def write_files(records: RecordLines, out: Path) -> Path:
    """Write the page and its files into `out`, and return the page.

    Raises:
        UsageError: If there is anything else in `out`.
        RunFolderError: If a file can't be written.
    """
    _refuse_others(out)
    records_folder = out / RECORDS
    try:
        records_folder.mkdir(parents=True, exist_ok=True)
        # A page that was written here before may have had more parts.
        for old in records_folder.glob("*.js"):
            old.unlink()
        for name, path in assets().items():
            (out / name).write_bytes(path.read_bytes())
        (out / INDEX).write_bytes(index_script(records))
        for number in _shown(range(records.chunks)):
            (records_folder / f"{number}.js").write_bytes(chunk_script(records, number))
        (out / PAGE).write_bytes(page(live=False))
    except OSError as error:
        raise RunFolderError(f"{out}: {error.strerror or error}; choose another out=") from error
    return out / PAGE


def _shown(numbers: Sequence[int]) -> Iterable[int]:
    """Show on a line of the terminal how many of them are done; nothing where nobody watches."""
    if not sys.stderr.isatty():
        return numbers
    from rich.console import Console
    from rich.progress import track

    return track(numbers, "records", console=Console(stderr=True, emoji=False), transient=True)


def _refuse_others(out: Path) -> None:
    if out.is_dir() and any(out.iterdir()):
        there = out / PAGE
        if there.is_file() and _MARK in there.read_text(encoding="utf-8", errors="replace"):
            return
        # A page is written last: what was cut off has an index and no page.
        if {path.name for path in out.iterdir()} <= {INDEX, RECORDS, *assets()}:
            return
        raise UsageError(f"out={out}: the folder has other files in it; choose another out=")
    if out.exists() and not out.is_dir():
        raise UsageError(f"out={out}: this is a file; name a folder")


class _RecordIndex:
    """The records as they were when a page last asked for its index."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._version, self._records = self._found(), self._read({})

    def _read(self, openings: Mapping[tuple[str, str], str]) -> RecordLines:
        return RecordLines([open_run(folder) for folder in self._folders], openings)

    def _found(self) -> int:
        """Return what grows with the journals of the runs."""
        # The page asks every few seconds: sizes of files are read without their lines.
        sizes = 0
        for folder in self._folders:
            for journal in ("predictions.jsonl", "scores.jsonl"):
                path = folder / journal
                sizes += path.stat().st_size if path.is_file() else 0
        return sizes

    def version(self, request: "Request") -> "Response":
        """Answer with a number that changes when there is more to show."""
        from starlette.responses import PlainTextResponse

        return PlainTextResponse(str(self._found()))

    def index(self, request: "Request") -> "Response":
        """Answer with the index, read again where the runs went on."""
        from starlette.responses import Response

        if (found := self._found()) != self._version:
            self._version, self._records = found, self._read(self._records.openings)
        return Response(index_script(self._records, self._version), media_type=_SCRIPT)

    def records(self, request: "Request") -> "Response":
        """Answer with a part of the records."""
        from starlette.responses import PlainTextResponse, Response

        number = whole_number(request.path_params["number"])
        if number is None or number >= self._records.chunks:
            return PlainTextResponse("not found", 404)
        return Response(chunk_script(self._records, number), media_type=_SCRIPT)


def application(folders: Sequence[Path], token: str) -> "Starlette":
    """Return the application that serves records of runs to holders of the token."""
    from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse
    from starlette.routing import Route

    desk = _RecordIndex(folders)
    known = assets()

    def show(request: "Request") -> "Response":
        return HTMLResponse(page(live=True))

    def asset(request: "Request") -> "Response":
        path = known.get(request.path_params["name"])
        return PlainTextResponse("not found", 404) if path is None else FileResponse(path)

    routes = [
        Route("/", show),
        Route("/version", desk.version),
        Route("/index.js", desk.index),
        Route("/records/{number}.js", desk.records),
        Route("/{name}", asset),
    ]
    return application_of(routes, token)
