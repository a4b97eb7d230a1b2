"""Facts about benchmarks: how many questions they have, and how many of their golds are wrong.

Sources: LoCoMo, the counts and errors of dial481/locomo-audit (`results-audit/RESULTS_AUDIT.md`):
99 of 1,540 golds are wrong, so that no system can deserve more than 93.57 %; the adversarial
questions, which that audit leaves out, are 446 (Maharana et al., ACL 2024). LongMemEval: Wu et al.,
ICLR 2025, 500 questions of six types, 30 of them abstentions.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """How many questions a category has.

    Attributes:
        wrong: How many of them have a wrong gold; None if not known.
        optional: Whether most evaluations leave the category out.
    """

    n: int
    wrong: int | None = None
    optional: bool = False

    @property
    def ceiling(self) -> float | None:
        """The best score that a system can deserve."""
        return None if self.wrong is None else (self.n - self.wrong) / self.n


LOCOMO: Mapping[str, Known] = {
    "multi-hop": Known(282, 28),
    "temporal": Known(321, 26),
    "open-domain": Known(96, 9),
    "single-hop": Known(841, 36),
    "adversarial": Known(446, optional=True),
}
LOCOMO_REPEATED = {1_540: 11, 1_986: 12}
"""How many questions stand in one conversation twice, by how many there are: without and with the
adversarial ones."""
LONGMEMEVAL: Mapping[str, Known] = {
    "single-session-user": Known(70),
    "single-session-assistant": Known(56),
    "single-session-preference": Known(30),
    "multi-session": Known(133),
    "temporal-reasoning": Known(133),
    "knowledge-update": Known(78),
}
LONGMEMEVAL_QUESTIONS = sum(known.n for known in LONGMEMEVAL.values())
HALUMEM_QUESTIONS = 3_467
"""Of either version, by the README of MemTensor/HaluMem."""
BEAM_QUESTIONS = 20
"""Of each conversation, whatever its length: 2,000 of 100 (Tavakoli et al., arXiv:2510.27246)."""


def benchmark_of(categories: set[str]) -> Mapping[str, Known]:
    """Return the known benchmark that has these categories; None if there is none."""
    for known in (LOCOMO, LONGMEMEVAL):
        if categories and categories <= set(known):
            return known
    return {}


def audited(known: Mapping[str, Known]) -> Known | None:
    """Return the sum of the categories whose gold was audited; None where none was."""
    own = [part for part in known.values() if part.wrong is not None]
    if not own:
        return None
    return Known(sum(part.n for part in own), sum(part.wrong or 0 for part in own))
