"""Tests of submissions and the site."""
