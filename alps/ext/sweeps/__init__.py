"""Sweeps: many systems on many tasks, in one process, within one budget."""

from alps.extension import Extension

EXTENSION = Extension("sweeps", commands={"sweep": "alps.ext.sweeps.commands:sweep"})
