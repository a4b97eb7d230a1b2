"""Readers of sets of histories and questions, a module each, whose name is the task's."""
