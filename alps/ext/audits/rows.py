"""Rows of `audit.json`: what an audit is."""

from alps.rows import Fields, Json, RubricCheck


class DrawnSessions(Fields):
    """The sessions of a track that are audited.

    Attributes:
        records: How many of its records with gold they hold.
        n: How many there are.
        seed: Of the drawing; None in older audits, whose tracks share that of the audit.
    """

    sessions: list[str]
    records: int
    n: int
    seed: int | None = None


class AuditManifest(Fields):
    """What an audit is: who judges, which known items it got right, and the drawn sessions."""

    judge: str
    fingerprint: Json
    share: float
    seed: int = 0
    tracks: dict[str, DrawnSessions]
    judge_check: dict[str, RubricCheck] | None = None

    def seed_of(self, track: str) -> int:
        """Return the seed by which a track was drawn."""
        own = self.tracks[track].seed
        return self.seed if own is None else own
