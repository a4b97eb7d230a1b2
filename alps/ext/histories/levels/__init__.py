"""Levels of a set besides its questions, a module each, whose name is the task's."""
