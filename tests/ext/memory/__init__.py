"""Tests of `alps.ext.memory`."""
