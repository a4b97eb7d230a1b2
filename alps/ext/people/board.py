"""The row of people on boards: how far two annotators agree, as an agreement file has it.

It says what one annotator would score against the other's gold. The file is what
`alps annotate agreement out=` writes of gold; figures are never ranked.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from alps.errors import DataError
from alps.ext.people.agreement_rows import AGREED, GoldAgreement
from alps.leaderboard.pages import FilePlace
from alps.leaderboard.parts import BoardPart
from alps.leaderboard.ranking import PeopleRow
from alps.leaderboard.untrusted import read_json, read_model
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
        try:
            agreement = read_model(path, GoldAgreement)
        except DataError as error:
            if _kind_of(path) != "labels":
                raise
            why = "input should be 'gold', because boards show only how two people agree on gold"
            fix = "name the file of alps annotate agreement on an export of job=gold"
            raise DataError(f"{why}; {fix}", path=path, field="kind") from error
        return AgreementFile(agreement, FilePlace(path.name, "", from_json(path.read_bytes())))


def _kind_of(path: Path) -> Any:
    try:
        row = read_json(path)
    except ValueError:
        return None
    return row.get("kind") if isinstance(row, dict) else None


BOARD = PeopleBoardPart()
