"""Agreement of people with a judge, as the extensions that keep calibrations know it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from alps.extension import extensions, load


class KnownAgreement:
    """What an extension knows of it; a method that it does not define knows nothing."""

    def said(self, judge: str, fingerprint: str) -> Iterator[str]:
        """Yield a sentence on each calibration of a judge with this fingerprint."""
        return iter(())

    def passed(self, judge: Mapping[str, Any], rubrics: Iterable[str]) -> bool:
        """Tell whether people's labels show that a judge is fit for each of some rubrics.

        Args:
            judge: Its fingerprint, as a run records it.
            rubrics: Those that a score is a mean of; none: how memories match.
        """
        return False


def people_say(judge: str, fingerprint: str) -> Iterator[str]:
    """Yield a sentence on each calibration of a judge that is known; see `KnownAgreement.said`."""
    for known in _known():
        yield from known.said(judge, fingerprint)


def people_agree(judge: Mapping[str, Any], rubrics: Iterable[str] = ()) -> bool:
    """Tell whether any calibration shows a judge to be fit; see `KnownAgreement.passed`."""
    return any(known.passed(judge, rubrics) for known in _known())


def _known() -> Iterator[KnownAgreement]:
    for extension in extensions():
        if extension.agreement:
            yield load(extension.agreement)()
