"""Extensions: each folder is a feature that can be deleted, and nothing else names it."""
