"""Runs: the run folder, its journals, and the engine that fills it."""
