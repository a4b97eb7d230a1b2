"""Tests of sets of histories and questions."""
