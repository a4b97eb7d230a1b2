"""Audits: a drawn share of a run's records is judged once more, by a better judge or people."""

from alps.extension import Extension

EXTENSION = Extension("audits", commands={})
