"""Tests of `alps.ext.calibration`."""
