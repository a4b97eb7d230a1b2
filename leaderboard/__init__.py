"""Submissions and the static leaderboard."""

from alps.extension import Extension

EXTENSION = Extension(
    "leaderboard",
    commands={"leaderboard": "alps.leaderboard.command_line:leaderboard"},
    heading="Leaderboard",
    moved={name: f"leaderboard {name}" for name in ("submit", "verify", "rescore")},
)
