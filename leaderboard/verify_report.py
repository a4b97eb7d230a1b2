"""What verifying found, and what will be published, in a terminal of 80 columns."""

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
from alps.report.runs import visible

_WIDTH = 80
_STYLES = {"serious": "bold red", "warning": "yellow", "note": "dim"}
_NOTHING = "–"
_MOST_SCORES = 4


def print_verification(found: Verification, console: Console) -> None:
    """Print what was checked, what was found and how to mend it, and what it comes to."""
    parts: list[RenderableType] = [
        Text(f"Verified {visible(found.folder)}.", "bold"),
        _checked(found),
    ]
    parts += [Text(f"Not checked: {visible(line)}.", style="dim") for line in found.unchecked]
    if found.findings:
        parts.append(Text())
    for finding in found.findings:
        parts += _finding(finding)
    parts += [Text(), _verdict(found)]
    console.print(Group(*parts), width=min(_WIDTH, console.width))


def print_packed(packed: Packed, console: Console) -> None:
    """Print what will be published: the files, the card, the scores, and the findings."""
    size = sum(size for _, size in packed.files)
    parts: list[RenderableType] = [
        Text(f"What will be published, in {visible(str(packed.folder))}: {size:,} bytes.", "bold"),
        _files(packed),
        _card(packed.card),
        _scores(packed.card),
    ]
    parts += [line for finding in packed.verification.findings for line in _finding(finding)]
    parts += [
        Text(f"Not checked: {visible(line)}.", style="dim")
        for line in packed.verification.unchecked[:-1]
    ]
    console.print(Group(*parts), width=min(_WIDTH, console.width))


def _checked(found: Verification) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check, what in found.checked:
        table.add_row(Text(check), Text(visible(what)))
    return table


def _finding(finding: Finding) -> Iterator[RenderableType]:
    line = Text(f"{finding.severity}: ", style=_STYLES[finding.severity])
    place = f"{visible(finding.where)}: " if finding.where else ""
    line.append(f"{place}{visible(finding.what)}", style="not bold default")
    yield line
    if finding.mend:
        yield Padding(Text(visible(finding.mend), style="dim"), (0, 0, 0, 2))


def _verdict(found: Verification) -> Text:
    counts = Counter(finding.severity for finding in found.findings)
    said = ", ".join(
        _counted(counts[severity], severity) for severity in SEVERITIES if counts[severity]
    )
    if found.serious:
        return Text(f"Refused ({said}).", style="bold red")
    how = (
        "its scores follow from its predictions and verdicts"
        if found.consistent
        else "not every score was recomputed"
    )
    return Text(f"{found.status}; {how}{f' ({said})' if said else ''}.", style="bold green")


def _counted(count: int, severity: str) -> str:
    return f"{count} {severity}{'s' if count > 1 and severity != 'serious' else ''}"


def _files(packed: Packed) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("file", overflow="fold")
    table.add_column("bytes", justify="right")
    for name, size in packed.files:
        table.add_row(visible(name), f"{size:,}")
    return table


def _card(card: Submission) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    system = card.system
    weights = {True: "open", False: "closed", None: _NOTHING}[system.open_weights]
    rows = {
        "name": card.name,
        "organisation": card.org,
        "address": card.url,
        "submitted": f"{card.submitted}, alps {card.alps}",
        "system": system.model
        if system.kind in system.model
        else f"{system.model} ({system.kind})",
        "snapshot": system.snapshot,
        "weights": weights,
        "notes": card.notes,
    }
    for label, text in rows.items():
        table.add_row(label, Text(visible(text or _NOTHING)))
    for run in card.runs:
        gold = "public" if run.data.public else "not public"
        table.add_row("data", Text(visible(f"{run.data.name} {run.data.split}, gold {gold}")))
        table.add_row(
            "judge",
            Text(visible(f"{run.settings.get('judge')}, fingerprint {run.judge.get('id')}")),
        )
        table.add_row("calls", Text(_calls(run)))
    return table


def _calls(run: RunCard) -> str:
    calls = run.calls
    if not calls.http and not calls.cached:
        return "none"
    said = [f"{calls.http:,} sent, {calls.cached:,} from the cache"]
    said.append(f"{calls.prompt_tokens + calls.completion_tokens:,} tokens")
    said.append("cost not known" if calls.cost is None else f"cost ${calls.cost:,.2f}")
    said += [] if run.seconds is None else [f"{run.seconds:,.0f} s"]
    return ", ".join(said)


def _scores(card: Submission) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("track", "score"):
        table.add_column(name, no_wrap=True)
    for name in ("value", "95 % interval", "n"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, track in card.tracks.items():
        known = [
            (metric, score) for metric, score in track.scores.items() if score.value is not None
        ]
        for place, (metric, score) in enumerate(known[:_MOST_SCORES]):
            table.add_row(
                "" if place else name,
                metric,
                f"{score.value:.4f}",
                _interval(score),
                f"{score.n:,}",
            )
        more, without = max(0, len(known) - _MOST_SCORES), len(track.scores) - len(known)
        rest = [f"{more} more"] * bool(more) + [f"{without} without a score"] * bool(without)
        if rest:
            table.add_row("", Text(", ".join(rest), style="dim"), "", "", "")
    return table


def _interval(score: Score) -> str:
    return (
        _NOTHING
        if score.low is None or score.high is None
        else f"{score.low:.4f} – {score.high:.4f}"
    )
