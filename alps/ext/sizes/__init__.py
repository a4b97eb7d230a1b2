"""Sizes of the context: a run at several `max_context_tokens=`, and the curve of its score."""

from alps.extension import Extension

EXTENSION = Extension("sizes", commands={})
