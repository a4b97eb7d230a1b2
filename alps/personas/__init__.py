"""Invented users whose texts a model writes, and questions that a model answers blind dropped."""
