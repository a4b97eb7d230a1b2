"""Check of a run without memory against those of other submissions with the same reader."""

from pathlib import Path

from alps.errors import AlpsError
from alps.leaderboard.checks.copies import others_beside
from alps.leaderboard.findings import Findings
from alps.leaderboard.same_reader import unlike_others
from alps.leaderboard.site_data import load_one
from alps.leaderboard.submission import Submission, memory_folder
from alps.leaderboard.untrusted import shown
from alps.run.beside import FOLDER


def check_same_reader(folder: Path, card: Submission, findings: Findings) -> None:
    """Flag a run without memory that differs from one of the same reader on the same data."""
    systems = []
    for path in (folder, *(entry.folder for entry in others_beside(folder))):
        try:
            systems.append(load_one(path))
        except AlpsError:
            continue
    for name, track in card.tracks.items():
        memory = card.memory_of(track.run)
        if memory is None:
            continue
        try:
            unlike = unlike_others(systems, name)
        # Rows that can't be read are a finding where they are verified.
        except AlpsError:
            continue
        if reason := unlike.get(card.slug):
            mend = "ask the reader again with alps beside; boards rank neither until they agree"
            where = f"{memory_folder(memory)}/{FOLDER}: {name}"
            findings.warn("beside", where, f"{card.slug}: {shown(reason, 300)}", mend)
