"""What the client of the Hugging Face hub raises, in words that say how to mend it."""

from collections.abc import Iterator

_LOG_IN = "log in with `hf auth login`, or set HF_TOKEN"
_ELSEWHERE = "try again later, or give a local copy with data=FOLDER"


def reason_of(error: Exception, repository: str) -> str:
    """Say why something of `repository` can't be read.

    The client wraps what happened: a file that the hub refuses becomes «not in the cache», with the
    answer behind it. So the whole chain is looked through, the most telling kind first.
    """
    from huggingface_hub import constants, errors

    causes = list(_causes(error))
    page = f"{constants.ENDPOINT}/datasets/{repository}"
    telling = {
        errors.GatedRepoError: f"it is gated: ask for access at {page}, then {_LOG_IN}",
        errors.DisabledRepoError: f"the hub has disabled it, see {page}",
        errors.RevisionNotFoundError: f"no such revision of {repository}, see {page}",
        errors.RepositoryNotFoundError: f"there is no such data set, or it is private: {_LOG_IN}",
        errors.OfflineModeIsEnabled: "not in the cache, and HF_HUB_OFFLINE forbids to fetch it; "
        "unset that, or give a local copy with data=FOLDER",
    }
    for kind, reason in telling.items():
        if any(isinstance(cause, kind) for cause in causes):
            return reason
    answers = [cause.response for cause in causes if isinstance(cause, errors.HfHubHTTPError)]
    if answers and answers[0].status_code in (401, 403):
        return f"the hub refused it (HTTP {answers[0].status_code}): {_LOG_IN}"
    if answers:
        code = answers[0].status_code
        return f"the hub answered HTTP {code}, and it is not in the cache; {_ELSEWHERE}"
    first = " ".join(str(causes[-1]).split())[:120]
    return f"can't be fetched ({type(causes[-1]).__name__}: {first}); {_ELSEWHERE}"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what led to it, the first cause last."""
    met: set[int] = set()
    while error is not None and id(error) not in met:
        met.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
