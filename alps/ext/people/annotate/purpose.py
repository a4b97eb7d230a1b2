"""Purpose of the labels of a folder, and the command that takes them."""

from alps.ext.calibration.next_steps import export_command, how_to_correct_f1, purpose_of
from alps.ext.people.annotate.seat import Seat

_NOBODY = "me"  # the default of as=


def lines_at_start(seat: Seat) -> list[str]:
    """Return what a person reads before the first label."""
    plan = seat.work.plan
    lines: list[str] = []
    if plan.job in ("rate", "match"):
        pairs, audit = plan.job == "match", plan.audit is not None
        lines.append(purpose_of(plan.source, pairs=pairs, audit=audit))
        if pairs and not audit:
            person = "" if seat.person == _NOBODY else seat.person
            lines.append(how_to_correct_f1(plan.source, person))
    return [*lines, f"When the items are labelled: {export_command(seat.folder)}"]
