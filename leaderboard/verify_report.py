"""Reports of a verification, and of what will be published, for a terminal of 80 columns."""

from collections import Counter
from collections.abc import Iterator

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from alps.leaderboard.findings import SEVERITIES, Finding, Verification
from alps.leaderboard.packing import Packed
from alps.leaderboard.submission import RunCard, Score, Submission
from alps.report.formatting import visible

_WIDTH = 80
_STYLES = {"serious": "bold red", "warning": "yellow", "note": "dim"}
_NOTHING = "–"
_MOST_SCORES = 4


def print_verification(verification: Verification, console: Console) -> None:
    """Print what was checked, the findings and how to fix them, and the verdict."""
    parts: list[RenderableType] = [Text(f"Verified {visible(verification.folder)}.", "bold")]
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
    files.add_column("bytes", justify="right")
    for name, size in packed.files:
        files.add_row(visible(name), f"{size:,}")
    total = sum(size for _, size in packed.files)
    heading = f"What will be published, in {visible(str(packed.folder))}: {total:,} bytes."
    parts: list[RenderableType] = [Text(heading, "bold"), files]
    parts += [_card(packed.card), _scores(packed.card)]
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
    counts = Counter(finding.severity for finding in verification.findings)
    words = []
    for severity in SEVERITIES:
        if count := counts[severity]:
            words.append(f"{count} {severity}{'s' if count > 1 and severity != 'serious' else ''}")
    counted = ", ".join(words)
    if verification.serious:
        return Text(f"Refused ({counted}).", style="bold red")
    how = "not every score was recomputed"
    if verification.consistent:
        how = "its scores follow from its predictions and verdicts"
    ending = f" ({counted})" if counted else ""
    return Text(f"{verification.status}; {how}{ending}.", style="bold green")


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
    parts.append("cost not known" if calls.cost is None else f"cost ${calls.cost:,.2f}")
    parts += [] if run.seconds is None else [f"{run.seconds:,.0f} s"]
    return ", ".join(parts)


def _scores(card: Submission) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("track", "score"):
        table.add_column(name, no_wrap=True)
    for name in ("value", "95 % interval", "n"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, track in card.tracks.items():
        known = {metric: score for metric, score in track.scores.items() if score.value is not None}
        for n, (metric, score) in enumerate(list(known.items())[:_MOST_SCORES]):
            cells = f"{score.value:.4f}", _interval(score), f"{score.n:,}"
            table.add_row("" if n else name, metric, *cells)
        more, without = max(0, len(known) - _MOST_SCORES), len(track.scores) - len(known)
        rest = [f"{more} more"] * bool(more) + [f"{without} without a score"] * bool(without)
        if rest:
            table.add_row("", Text(", ".join(rest), style="dim"), "", "", "")
    return table


def _interval(score: Score) -> str:
    if score.low is None or score.high is None:
        return _NOTHING
    return f"{score.low:.4f} – {score.high:.4f}"
