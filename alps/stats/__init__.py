"""Intervals, paired tests, agreement and corrections."""
