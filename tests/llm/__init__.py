"""Tests of the client of language models."""
