"""Submissions and the static leaderboard."""
