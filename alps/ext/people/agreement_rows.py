"""Rows of an agreement file: what `out=` of `alps annotate agreement` writes and boards read."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from alps.stats.bootstrap import Estimate

AGREED = {"memories": "set_f1", "memory": "same_memory", "queries": "query_f1"}
"""What says how far two people agree on items of a kind."""


class _AgreementRow(BaseModel):
    # Boards read such files from others: an unknown field or a NaN is refused, and not shown.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def as_json(self) -> dict[str, Any]:
        """Return the rows as they are written."""
        return self.model_dump(mode="json")


class AgreementFigure(_AgreementRow):
    """A figure with its 95 % interval; `n` counts what `unit` names."""

    value: float | None
    low: float | None
    high: float | None
    n: int = Field(ge=0)
    unit: str
    reason: str | None = None
    method: str | None = None

    @classmethod
    def of(cls, estimate: Estimate, unit: str) -> "AgreementFigure":
        """Return the row of an estimate over so many of `unit`."""
        names = cls.model_fields.keys() - {"unit"}
        return cls(**{name: getattr(estimate, name) for name in names}, unit=unit)


class PairCounts(_AgreementRow):
    """On how many sessions two people left items, how many each, and how many pairs match."""

    sessions: int
    items: tuple[int, int]
    pairs: int


class DraftRow(_AgreementRow):
    """What two people share with the draft that both started from.

    Attributes:
        verbatim: The share of each person's items that are the draft's, word for word.
        without: The agreement on all other items, by its name.
    """

    verbatim: tuple[AgreementFigure, AgreementFigure]
    without: dict[str, AgreementFigure]


class PartRow(_AgreementRow):
    """What two people agree on in one part of a session.

    Counts are by kind of items, and so are drafts, where one is known; figures by their names.
    """

    title: str
    counts: dict[str, PairCounts] = Field(default_factory=dict)
    figures: dict[str, AgreementFigure] = Field(default_factory=dict)
    drafts: dict[str, DraftRow] = Field(default_factory=dict)


class GoldAgreement(_AgreementRow):
    """How far two people agree on gold.

    Attributes:
        annotators: What the two are called.
        rule: The matching rule of memories: its name, and all that its matches depend on.
        matching: The rule in words.
        sessions: How many both annotated.
        alone: How many only one of them did; these are in no figure.
        draft: What the draft is called; None where none is known.
        unjudged: Lists that the rule said nothing of, by what kept it; they are in no figure.
    """

    format: Literal[1] = 1
    kind: Literal["gold"] = "gold"
    annotators: tuple[str, str]
    rule: dict[str, Any]
    matching: str
    sessions: int
    alone: int
    draft: str | None
    unjudged: dict[str, int] = Field(default_factory=dict)
    parts: dict[str, PartRow]

    @property
    def matched(self) -> int:
        """How many times two lists were matched."""
        counts = [count.sessions for part in self.parts.values() for count in part.counts.values()]
        return sum(counts)


class PairOfPeople(_AgreementRow):
    """How far two people agree under one rubric."""

    people: tuple[str, str]
    figures: dict[str, AgreementFigure]


class LabelledRow(_AgreementRow):
    """How far people agree under one rubric.

    Attributes:
        kind: Of its scale.
        items: How many it has.
        twice: How many of them two people or more labelled.
        people: Who labelled.
        figures: Figures over all of them, by name.
        pairs: Those of pairs of people, the pairs that share most items first.
    """

    kind: str
    items: int
    twice: int
    people: list[str]
    figures: dict[str, AgreementFigure]
    pairs: list[PairOfPeople]


class LabelAgreement(_AgreementRow):
    """How far people agree on the items of a label folder; `labels` is the hash of the folder."""

    format: Literal[1] = 1
    kind: Literal["labels"] = "labels"
    labels: str
    rubrics: dict[str, LabelledRow]
