"""Tests of `alps.ext.local`."""
