"""Memories between a history and the system that reads it, by the name that `memory=` gives."""
