"""Scores of sets as their authors compute them, for comparison with published figures."""
