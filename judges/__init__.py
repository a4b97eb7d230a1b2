"""Judges: one-to-one matching of memories, rubrics, and those who answer by them."""
