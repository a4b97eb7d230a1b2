"""Tests of `alps.ext.sweeps`."""
