"""Who says what counts as right: one-to-one matching of memories, rubrics, and the judges
themselves.
"""
