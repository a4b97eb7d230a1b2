"""Calibration of judges against people: label folders, asking, figures, gates and reports."""
