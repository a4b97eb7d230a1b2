"""Who says what counts as right.

One-to-one matching of memories, rubrics, and the judges themselves.
"""
