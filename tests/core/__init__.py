"""Tests of the spine."""
