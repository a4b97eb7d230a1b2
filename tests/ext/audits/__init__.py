"""Tests of `alps.ext.audits`."""
