"""Questions of PersonaMem: several options, of which one fits what the user has become."""

from alps.tasks.personamem.task import tracks

__all__ = ["tracks"]
