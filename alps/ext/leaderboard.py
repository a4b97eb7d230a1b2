"""The leaderboard, whose folder lies at the top of the repository."""

from alps.leaderboard import EXTENSION

__all__ = ["EXTENSION"]
