"""The row of people on boards: how far two annotators agree, as an agreement file has it.

It says what one annotator would score against the other's gold. The file is what
`alps annotate agreement out=` writes; figures are never ranked.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic_core import from_json

from alps.ext.people.agreement_rows import AGREED, GoldAgreement
from alps.leaderboard.pages import FilePlace
from alps.leaderboard.parts import BoardPart
from alps.leaderboard.ranking import PeopleRow
from alps.leaderboard.untrusted import read_model
from alps.tasks import Metric

_KINDS = {figure: kind for kind, figure in AGREED.items()}


@dataclass(frozen=True)
class AgreementFile:
    """An agreement file, and the places of its figures."""

    agreement: GoldAgreement
    root: FilePlace

    def on(self, metrics: Iterable[Metric]) -> PeopleRow | None:
        """Return the row on a board of `metrics`; None where the file has no figure for them."""
        scores: dict[str, FilePlace] = {}
        verbatim = without = None
        rule = ""
        for metric in metrics:
            part, _, figure = metric.on_boards.people.partition(".")
            place = self.root["parts"][part]
            score = place["figures"][figure]
            if not score["value"]:
                continue
            scores[metric.name] = score
            if _KINDS[figure] == "memories":
                rule = str(self.agreement.rule.get("rule", ""))
            draft = place["drafts"][_KINDS[figure]]
            if draft and verbatim is None:
                verbatim = (draft["verbatim"][0]["value"], draft["verbatim"][1]["value"])
                others = draft["without"][f"{figure}_micro"]["value"]
                without = others if others else None
        if not scores:
            return None
        names = self.agreement.annotators
        return PeopleRow(names, scores, self.root["sessions"], rule, verbatim, without)


class PeopleBoardPart(BoardPart):
    """The row of people."""

    def people(self, path: Path) -> AgreementFile:
        """Read an agreement file.

        Raises:
            DataError: If it can't be read, or is none of two people on gold; names file and field.
        """
        agreement = read_model(path, GoldAgreement)
        return AgreementFile(agreement, FilePlace(path.name, "", from_json(path.read_bytes())))


BOARD = PeopleBoardPart()
