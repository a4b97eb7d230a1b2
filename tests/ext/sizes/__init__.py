"""Tests of `alps.ext.sizes`."""
