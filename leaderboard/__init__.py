"""Submissions and the static leaderboard."""

from alps.extension import Extension

_HERE = "alps.leaderboard.command_line"
EXTENSION = Extension(
    "leaderboard",
    commands={
        "submit": f"{_HERE}:submit",
        "verify": f"{_HERE}:verify",
        "rescore": f"{_HERE}:rescore",
        "leaderboard": f"{_HERE}:leaderboard",
    },
)
