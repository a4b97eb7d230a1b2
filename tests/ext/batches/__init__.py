"""Tests of `alps.ext.batches`."""
