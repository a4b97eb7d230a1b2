"""Forgetting: what was deleted or superseded must not be found, and what stays must be."""

from alps.tasks.forgetting.task import tracks

__all__ = ["tracks"]
