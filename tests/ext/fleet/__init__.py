"""Tests of `alps.ext.fleet`."""
