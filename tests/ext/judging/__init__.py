"""Tests of `alps.ext.judging`."""
