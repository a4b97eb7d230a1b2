"""Draws of published audits: by the seed that a maintainer drew after the answers were sent.

Whatever a seed is made of that a submission holds, its submitter can vary: a word more in one of
the answers is another draw, and the best of 2,000 makes a score. So boards have what an audit
corrects where a maintainer's review drew its seed, for these very answers, verdicts and scores.
"""

import hashlib
import json
import secrets

from alps.leaderboard.checks.copies import others_beside
from alps.leaderboard.submission import AuditDraw, Entry, Review, Submission
from alps.tasks import all_tracks

_SEEDS = 2**31


def content_of(card: Submission) -> str:
    """Return a hash of the answers, verdicts and scores of a submission."""
    parts = []
    for name, track in sorted(card.tracks.items()):
        files = track.files
        own = [files.predictions, files.verdicts, files.scores]
        parts.append([name, *(None if file is None else file.sha256 for file in own)])
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def draw_for(entry: Entry) -> AuditDraw | None:
    """Return the draw that a review gives the audits of a submission.

    The same answers, verdicts and scores get one draw, whoever sends them under whatever name, and
    others get another. None where no judge has a part in the scores.
    """
    content = content_of(entry.card)
    for one in (entry, *others_beside(entry.folder)):
        there = None if one.review is None else one.review.audit_draw
        if there is not None and there.answers == content:
            return there
    if not any(all_tracks()[name].judged for name in entry.card.tracks):
        return None
    return AuditDraw(answers=content, seed=secrets.randbelow(_SEEDS))


def drawn_by_a_maintainer(card: Submission, review: Review | None, track: str) -> bool:
    """Tell whether the sessions that a track's audit is of were drawn by a maintainer."""
    audit, draw = card.tracks[track].audit, None if review is None else review.audit_draw
    if audit is None or draw is None:
        return False
    return draw.seed == audit.seed and draw.answers == content_of(card)
