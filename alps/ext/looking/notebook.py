"""A run as a notebook shows it: a plot of its headlines, and its scores as a table."""

import html

from alps.rows import Score
from alps.run.opened import RunFolder
from alps.show.charts import axis_of
from alps.show.formatting import interval, number, task_title
from alps.show.short_form import Headline, headlines

_LEFT, _WIDTH, _ROW, _RIGHT = 190, 300, 26, 150


def run_as_html(run: RunFolder) -> str:
    """Return the plot and the table; an unfinished run has neither."""
    title = html.escape(f"{run.model}, judged by {run.judge} ({run.folder})")
    if run.summary is None:
        return f"<p>{title}: not finished</p>"
    metrics = {name: task.metrics for name, task in run.tasks.items()}
    rows, leads = [], headlines(run.summary, metrics)
    for lead in leads:
        for name, score in lead.track.scores.items():
            rows.append(_row(task_title(lead.name, lead.track), name, score))
    head = "<tr><th>task</th><th>metric</th><th>score</th><th>95 % interval</th><th>n</th></tr>"
    plot = _plot([lead for lead in leads if lead.score.value is not None])
    return f"<p>{title}</p>{plot}<table>{head}{''.join(rows)}</table>"


def _plot(leads: list[Headline]) -> str:
    """Draw the headline of each task with its interval, and its best trivial baseline."""
    if not leads:
        return ""
    width, height = _LEFT + _WIDTH + _RIGHT, _ROW * (len(leads) + 1)
    parts = "".join(_drawn(lead, place) for place, lead in enumerate(leads))
    key = _text(_LEFT, height - 8, "● score, 95 % interval  ○ best trivial baseline")
    return (
        f'<svg width="{width}" height="{height}" role="img" aria-label="headline scores" '
        f'fill="currentColor" stroke="none" font-size="13">{parts}{key}</svg>'
    )


def _drawn(lead: Headline, place: int) -> str:
    axis, score, y = axis_of(lead.metric), lead.score, _ROW * place + _ROW // 2

    def across(value: float) -> float:
        return round(_LEFT + _WIDTH * axis.at(value), 1)

    parts = [
        _text(0, y + 4, task_title(lead.name, lead.track)),
        _line(_LEFT, _LEFT + _WIDTH, y, width=1, opacity=0.25),
    ]
    shown = number(score.value)
    if score.low is not None and score.high is not None:
        shown += f" {interval(score)}"
        parts.append(_line(across(score.low), across(score.high), y, width=3, opacity=0.6))
    if lead.baseline is not None:
        floor = lead.baseline[1].scores[lead.metric.name].known
        ring = f'<circle cx="{across(floor)}" cy="{y}" r="4" fill="none" stroke="currentColor"/>'
        parts.append(ring)
    parts.append(f'<circle cx="{across(score.known)}" cy="{y}" r="5"/>')
    parts.append(_text(_LEFT + _WIDTH + 12, y + 4, shown))
    return "".join(parts)


def _line(start: float, end: float, y: int, *, width: int, opacity: float) -> str:
    ends = f'x1="{start}" x2="{end}" y1="{y}" y2="{y}"'
    return f'<line {ends} stroke="currentColor" stroke-width="{width}" opacity="{opacity}"/>'


def _text(x: int, y: int, content: str) -> str:
    return f'<text x="{x}" y="{y}">{html.escape(content)}</text>'


def _row(track: str, name: str, score: Score) -> str:
    shown = (html.escape(score.unscored or "–"), "")
    if score.value is not None:
        shown = f"{score.value:.3f}", ""
        if score.low is not None and score.high is not None:
            shown = f"{score.value:.3f}", f"[{score.low:.3f}, {score.high:.3f}]"
    cells = (html.escape(track), html.escape(name), *shown, f"{score.n:,}")
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
