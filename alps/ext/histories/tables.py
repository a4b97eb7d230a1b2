"""Tables of a run on a set: which files were read, and what its intervals rest on."""

from collections.abc import Iterable, Mapping
from typing import Any

from alps.ext.histories.part import NAME
from alps.rows import Summary
from alps.show.formatting import counted
from alps.show.parts import ShownPart

FEW = 15
"""Histories of which there are so few that an interval between them is rough."""


class Shown(ShownPart):
    """Notes on runs of sets."""

    def notes(self, summary: Summary) -> Iterable[str]:
        """Say what the files are, what is known to be wrong in them, and what intervals tell."""
        for track, held in summary.parts.get(NAME, {}).items():
            yield _files(track, held)
            yield from _wrong(track, held)
            if held["histories"] < FEW < held["questions"]:
                number = counted(held["histories"], "history", "histories")
                yield (
                    f"{track}: {number}: intervals resample histories and are rough; a difference "
                    "of a few points may be chance"
                )


def _files(track: str, held: Mapping[str, Any]) -> str:
    histories = counted(held["histories"], "history", "histories")
    digest = str(held.get("sha256"))[:12]
    said = f"{track}: {counted(held['questions'], 'question')} on {histories}, sha256 {digest}"
    if official := held.get("not_official"):
        said += f"; not the official set: {official} questions, or of other kinds"
    return said


def _wrong(track: str, held: Mapping[str, Any]) -> Iterable[str]:
    wrong = held["wrong_golds"]
    if wrong:
        total, of = sum(wrong.values()), held["answerable"]
        by_kind = []
        for kind, count in sorted(wrong.items()):
            by_kind.append(f"{kind} {100 - 100 * count / held['kinds'][kind]:.2f}")
        yield (
            f"{track}: {total} of {of:,} gold answers are known to be wrong, so a correct system "
            f"scores at most {100 - 100 * total / of:.2f} % on answerable questions (by kind: "
            f"{', '.join(by_kind)})"
        )
