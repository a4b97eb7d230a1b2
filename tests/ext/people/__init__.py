"""Tests of `alps.ext.people`."""
