"""The commands submit, verify, rescore and leaderboard: from words to output and exit code.

What they print fits a terminal of 80 columns.
"""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from alps.errors import BudgetError, UsageError
from alps.leaderboard.cards import SubmitterDetails
from alps.leaderboard.checks import SEVERITIES, Finding, Verification
from alps.leaderboard.checks.files import SUBMISSIONS
from alps.leaderboard.packing import Packed, missing, pack, today, write_request
from alps.leaderboard.parts import all_parts
from alps.leaderboard.settings import (
    RescoreSettings,
    ServeSettings,
    SiteSettings,
    SubmitSettings,
    VerifySettings,
)
from alps.leaderboard.submission import (
    CARD,
    REVIEW,
    PublishedScore,
    Review,
    RunCard,
    Submission,
    read_entry,
    write_card,
)
from alps.leaderboard.untrusted import shown
from alps.leaderboard.verify import Options, verify
from alps.llm.options import key_of
from alps.run.estimate import Stage
from alps.run.opened import MANIFEST, find_run, open_run
from alps.settings import parse_words, part_words
from alps.show.estimate import show_estimate
from alps.show.formatting import counted, visible
from alps.show.table import Cell, figures, named, printed, row_of, terminal
from alps.show.table import Table as ScoreTable
from alps.tasks import board_tracks
from alps.tasks.registry import track_title
from alps.waiting import end, tell

REFUSED = 1
_WIDTH = 80
_STYLES = {"serious": "bold red", "warning": "yellow", "note": "dim"}
_NOTHING = "–"
_MOST_SCORES = 4
_ROOM_FOR_INTERVALS = 60


def submit_command(words: Sequence[str]) -> int:
    """Pack the runs among `words`, show what will be published, and write it; return the exit code.

    Raises:
        AlpsError: If it can't be published so.
    """
    words_of_runs, words_of_settings = part_words(words)
    settings = parse_words(words_of_settings, SubmitSettings)
    runs = list(map(find_run, words_of_runs))
    if not runs:
        raise UsageError("name at least one finished run")
    details = SubmitterDetails(
        name=settings.name or open_run(runs[0]).model,
        submitted=settings.date or today(),
        org=settings.org,
        url=settings.url,
        notes=settings.notes,
        kind=settings.kind,
        snapshot=settings.snapshot,
        open_weights=settings.open_weights,
        public=settings.public,
    )
    console = terminal()
    packed = pack(
        runs,
        details,
        out=Path(settings.out) if settings.out else None,
        calls=settings.calls,
        verdicts=settings.verdicts,
        data=settings.data,
        show=lambda about_to_write: print_packed(about_to_write, console),
        write=not settings.dry_run,
    )
    _print_missing(packed, console)
    if settings.dry_run:
        console.print("Dry run: nothing written.", markup=False)
        return 0
    line = f"wrote {packed.folder / CARD}; check it with: alps leaderboard verify {packed.folder}"
    console.print(line, markup=False)
    if settings.request is not None:
        write_request(packed, Path(settings.request))
        told = "the text of the pull request; complete the unticked items"
        console.print(f"wrote {settings.request}: {told}", markup=False)
    return 0


def _print_missing(packed: Packed, console: Console) -> None:
    lines = list(missing(packed.card, packed.verification))
    if not lines:
        return
    parts: list[RenderableType] = [Text("Before you submit, add these settings:", "bold")]
    for number, line in enumerate(lines, start=1):
        parts.append(Padding(Text(f"{number}. {visible(line)}"), (0, 0, 0, 1)))
    console.print(Group(*parts), width=min(_WIDTH, console.width))


def verify_command(words: Sequence[str]) -> int:
    """Verify the submission among `words`, print the findings, and return 1 where it is refused.

    Raises:
        UsageError: If not exactly one folder is named, none of a submission, or a setting is not
            understood.
    """
    folder, words_of_settings = _one(words)
    settings = parse_words(words_of_settings, VerifySettings)
    options = Options(
        data=settings.data,
        split=settings.split,
        base=settings.base,
        changed=_lines(Path(settings.changed).expanduser()) if settings.changed else None,
        reviewed=settings.reviewed,
        continues=settings.continues,
    )
    earlier = settings.continues
    if earlier is not None and not (folder.resolve().parent / earlier / CARD).is_file():
        beside = shown(str(folder), 200)
        raise UsageError(f"continues={earlier}: no submission with this name next to {beside}")
    verification = verify(folder, options)
    if settings.format == "json":
        print(json.dumps(verification.as_json(), ensure_ascii=False, indent=2))
    else:
        print_verification(verification, terminal())
    if settings.record and not verification.serious:
        _record(folder, settings, verification.recomputed)
    return REFUSED if verification.serious else 0


def _record(folder: Path, settings: VerifySettings, recomputed: Sequence[str]) -> None:
    """Note in `review.json` that a submission is in order; what is noted there stays."""
    path, entry = folder / REVIEW, read_entry(folder)
    joined: dict[str, Any] = {}
    if settings.continues not in (None, folder.resolve().name):
        joined["continues"] = settings.continues
    there = entry.review
    for part in all_parts():
        joined |= part.review(entry)
    draw = joined.get("audit_draw")
    if draw is not None and settings.format != "json":
        line = f"boards show an audit of these answers only if it uses audit_seed={draw.seed}"
        terminal().print(line, markup=False)
    if there is not None and draw == there.audit_draw:
        joined.pop("audit_draw", None)
    if there is not None:
        if joined:
            write_card(path, there.model_copy(update=joined))
        return
    review = Review(status="format-checked", date=today(), tracks={}, note=None)
    # On data that only the maintainer has nothing else lets the scores be ranked.
    if settings.data is not None:
        joined["recomputed"] = list(recomputed)
    write_card(path, review.model_copy(update=joined))


def rescore_command(words: Sequence[str]) -> int:
    """Judge the predictions of the submission among `words` again; return the exit code.

    It is 1 where too many have no verdict, or a submitted score was refuted.

    Raises:
        AlpsError: If the submission, the judge or the data can't be used, or the budget is spent.
    """
    # The engine and the judges are loaded only where something is judged.
    from alps.leaderboard.rescore import rescore

    folder, words_of_settings = _one(words)
    settings = parse_words(words_of_settings, RescoreSettings)

    def show(stages: Sequence[Stage]) -> None:
        most = settings.max_total_tokens
        show_estimate(stages, max_cost=settings.max_cost, max_total_tokens=most)

    done = rescore(folder, settings, list(map(key_of, words_of_settings)), tell=show)
    if done is None:
        return 0
    if done.budget_spent:
        raise BudgetError("the budget is spent; to resume, repeat the command with a larger budget")
    console = terminal()
    if done.too_many_unscored:
        line = "Too many answers have no verdict, so alps wrote no review; repeat the command to "
        line += "judge them."
        console.print(line, markup=False)
        return REFUSED
    for contradiction in done.refuted:
        console.print(f"refuted: {contradiction}", markup=False)
    line = f"wrote {shown(str(done.path), 200)}: {done.review.status} under {settings.judge}"
    console.print(line, markup=False)
    return REFUSED if done.refuted else 0


def build_command(words: Sequence[str]) -> int:
    """Build the site and say what it holds; return the exit code.

    Raises:
        UsageError: If a word is not understood, or there is nothing to read.
        DataError: If a submission can't be read.
    """
    built = _build(parse_words(words, SiteSettings))
    end()
    print(built)
    return 0


def serve_command(words: Sequence[str]) -> int:
    """Build the site and serve it on loopback until interrupted; return the exit code.

    Raises:
        UsageError: If a word is not understood, or the port is taken.
        DataError: If a submission can't be read.
    """
    from alps.leaderboard.site import check_site, serve

    settings = parse_words(words, ServeSettings)
    # The port first: a site is built for minutes.
    with serve(Path(settings.out), port=settings.port) as server:
        built = _build(settings) if settings.build else None
        check_site(Path(settings.out))
        end()
        if built is not None:
            print(built)
        host, port = server.server_address[:2]
        print(f"http://{host!s}:{port}/ (Ctrl-C to stop)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0


def _build(settings: SiteSettings) -> str:
    from alps.leaderboard.site import AGREEMENT, build

    # Those given, those of the checkout, or those of the package.
    own = Path(__file__).resolve().parent / "submissions"
    submissions = SUBMISSIONS if SUBMISSIONS.is_dir() else own
    if settings.submissions is not None:
        submissions = Path(settings.submissions)
    people = Path(settings.people) if settings.people is not None else None
    beside = submissions.parent / AGREEMENT
    # Beside those of a stranger a file of that name may be anything.
    if people is None and settings.submissions is None and beside.is_file():
        people = beside
    tell("building the site", announced=True)
    built = build(submissions, Path(settings.out), people=people)
    counts = f"{counted(built.submissions, 'submission')} on {counted(built.boards, 'board')}"
    size = f"{counted(built.pages, 'page')}, {built.bytes / 1e6:,.1f} MB"
    left = f"\nold files kept, because they changed since the last build: {', '.join(built.left)}"
    return f"{built.out / 'index.html'}: {counts}, {size}{left if built.left else ''}"


def _one(words: Sequence[str]) -> tuple[Path, list[str]]:
    folders, settings = part_words(words)
    if len(folders) != 1:
        raise UsageError(f"name one submission, not {len(folders)}")
    folder = Path(folders[0]).expanduser()
    if not folders[0].strip() or not os.path.lexists(folder / CARD):
        raise UsageError(_no_submission(folders[0], folder))
    return folder, settings


def _no_submission(word: str, folder: Path) -> str:
    """Say what lies where a submission was named, and what to name instead."""
    named = shown(word, 200) or "''"
    if not word.strip() or not os.path.lexists(folder):
        return f"{named}: no such folder; name the folder of a submission"
    if (folder / MANIFEST).is_file():
        return f"{named}: a run, not a submission; pack it with alps leaderboard submit {named}"
    names = []
    if folder.is_dir():
        names = sorted(path.name for path in folder.iterdir() if (path / CARD).is_file())
    if names:
        first = shown(str(folder / names[0]), 200)
        return f"{named}: contains {counted(len(names), 'submission')}; name one, such as {first}"
    return f"{named}: no {CARD} there; name the folder of a submission"


def _lines(path: Path) -> tuple[str, ...]:
    try:
        return tuple(filter(None, path.read_text(encoding="utf-8").splitlines()))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise UsageError(
            f"changed={path}: can't be read ({reason}); name a text file with one path per line"
        ) from error


def print_verification(verification: Verification, console: Console) -> None:
    """Print what was checked, the findings and how to fix them, and the verdict."""
    parts: list[RenderableType] = [Text(f"Checked {visible(verification.folder)}.", "bold")]
    checked = _facts()
    for check, what in verification.checked:
        checked.add_row(Text(check), Text(visible(what)))
    parts += [checked, *_unchecked(verification.unchecked)]
    if verification.findings:
        parts.append(Text())
    for finding in verification.findings:
        parts += _finding(finding)
    parts += [Text(), _verdict(verification)]
    console.print(Group(*parts), width=min(_WIDTH, console.width))


def print_packed(packed: Packed, console: Console) -> None:
    """Print what will be published: the files, the card, the scores, and the findings."""
    files = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    files.add_column("file", overflow="fold")
    files.add_column("bytes", justify="right", no_wrap=True)
    for name, size in packed.files:
        files.add_row(visible(name), f"{size:,}")
    total = sum(size for _, size in packed.files)
    heading = f"The submission publishes {total:,} bytes in {visible(str(packed.folder))}:"
    parts: list[RenderableType] = [Text(heading, "bold"), files]
    parts += [_card(packed.card), *printed([_scores(packed.card)], console.width)]
    for finding in packed.verification.findings:
        parts += _finding(finding)
    parts += _unchecked(packed.verification.unchecked[:-1])
    console.print(Group(*parts), width=min(_WIDTH, console.width))


def _facts() -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _unchecked(lines: tuple[str, ...]) -> list[RenderableType]:
    return [Text(f"Not checked: {visible(line)}.", style="dim") for line in lines]


def _finding(finding: Finding) -> Iterator[RenderableType]:
    line = Text(f"{finding.severity}: ", style=_STYLES[finding.severity])
    where = f"{visible(finding.where)}: " if finding.where else ""
    line.append(f"{where}{visible(finding.what)}", style="not bold default")
    yield line
    if finding.mend:
        yield Padding(Text(visible(finding.mend), style="dim"), (0, 0, 0, 2))


def _verdict(verification: Verification) -> Text:
    counts = verification.counts
    words = []
    for severity in SEVERITIES:
        if count := counts[severity]:
            words.append(counted(count, "serious problem" if severity == "serious" else severity))
    told = ", ".join(words)
    if verification.serious:
        return Text(f"Refused ({told}).", style="bold red")
    how = "alps could not recompute every score"
    if verification.consistent:
        how = "the scores follow from the predictions and verdicts"
    ending = f" ({told})" if told else ""
    return Text(f"{verification.status}: {how}{ending}.", style="bold green")


def _card(card: Submission) -> Table:
    table, system = _facts(), card.system
    weights = {True: "open", False: "closed", None: _NOTHING}[system.open_weights]
    kind = "" if system.kind in system.model else f" ({system.kind})"
    rows = {
        "name": card.name,
        "organisation": card.org,
        "address": card.url,
        "submitted": f"{card.submitted}, alps {card.alps}",
        "system": f"{system.model}{kind}",
        "snapshot": system.snapshot,
        "weights": weights,
        "notes": card.notes,
    }
    for label, text in rows.items():
        table.add_row(label, Text(visible(text or _NOTHING)))
    for run in card.runs:
        gold = "public" if run.data.public else "not public"
        judge = f"{run.settings.get('judge')}, fingerprint {run.judge.get('id')}"
        table.add_row("data", Text(visible(f"{run.data.name} {run.data.split}, gold {gold}")))
        table.add_row("judge", Text(visible(judge)))
        table.add_row("calls", Text(_calls(run)))
    return table


def _calls(run: RunCard) -> str:
    calls = run.calls
    if not calls.http and not calls.cached:
        return "none"
    parts = [f"{calls.http:,} sent, {calls.cached:,} from the cache"]
    parts.append(f"{calls.prompt_tokens + calls.completion_tokens:,} tokens")
    parts.append("cost unknown" if calls.cost is None else f"cost ${calls.cost:,.2f}")
    parts += [] if run.seconds is None else [f"{run.seconds:,.0f} s"]
    return ", ".join(parts)


def _scores(card: Submission) -> ScoreTable:
    rows = []
    for name, track in card.tracks.items():
        titles = {metric.name: metric.title.strip() for metric in board_tracks()[name].metrics}
        known = {metric: score for metric, score in track.scores.items() if score.value is not None}
        for n, (metric, score) in enumerate(list(known.items())[:_MOST_SCORES]):
            cells = f"{score.value:.4f}", _interval(score), f"{score.n:,}"
            rows.append(row_of("" if n else track_title(name), titles.get(metric, metric), *cells))
        more, without = max(0, len(known) - _MOST_SCORES), len(track.scores) - len(known)
        rest = [f"{more} more"] * bool(more) + [f"{without} without a score"] * bool(without)
        if rest:
            rows.append(row_of("", Cell(", ".join(rest), style="dim")))
    # Where there is no room for all figures, one is left out: a cut one could not be read.
    between = figures("95 % interval", from_width=_ROOM_FOR_INTERVALS)
    columns = [named("task", "fold"), named("score", "fold"), *figures("value"), *between]
    columns += figures("n")
    return ScoreTable("", columns, rows, layout="roomy")


def _interval(score: PublishedScore) -> str:
    if score.low is None or score.high is None:
        return _NOTHING
    return f"{score.low:.4f} – {score.high:.4f}"
