"""`alps leaderboard build` and `alps leaderboard serve`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from alps.leaderboard.checks.files import SUBMISSIONS
from alps.settings import HomePath, parse_words

SITE = "site"


class SiteSettings(BaseModel):
    """What `alps leaderboard build` can be told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    submissions: Annotated[
        HomePath | None,
        Field(
            description="the folder that holds a folder for each submission; else that of the checkout, or ours"
        ),
    ] = None
    out: Annotated[HomePath, Field(description="the folder that is written")] = SITE


class ServeSettings(SiteSettings):
    """What `alps leaderboard serve` can be told."""

    port: Annotated[
        int, Field(ge=0, le=65_535, description="on loopback; 0 for any that is free")
    ] = 8000
    build: Annotated[bool, Field(description="no: serve the site that lies in out= already")] = True


def build_command(words: Sequence[str]) -> int:
    """Build the site and say what it holds; return the exit code.

    Raises:
        UsageError: If a word is not understood, or there is nothing to read.
        DataError: If a submission can't be read.
    """
    settings = parse_words(words, SiteSettings)
    print(_build(settings))
    return 0


def serve_command(words: Sequence[str]) -> int:
    """Build the site and serve it on loopback until interrupted; return the exit code.

    Raises:
        UsageError: If a word is not understood, or the port is taken.
        DataError: If a submission can't be read.
    """
    from alps.leaderboard.serve import serve

    settings = parse_words(words, ServeSettings)
    if settings.build:
        print(_build(settings))
    with serve(Path(settings.out), port=settings.port) as server:
        print(
            f"http://{server.server_address[0]!s}:{server.server_address[1]}/ (Ctrl-C ends it)",
            flush=True,
        )
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0


def _build(settings: SiteSettings) -> str:
    from alps.leaderboard.site import build

    built = build(_submissions(settings.submissions), Path(settings.out))
    left = (
        f"\nleft there, changed since it was built: {', '.join(built.left)}" if built.left else ""
    )
    return (
        f"{built.out / 'index.html'}: {_many(built.submissions, 'submission')} on {_many(built.boards, 'board')}, "
        f"{_many(built.pages, 'page')}, {built.bytes / 1e6:,.1f} MB{left}"
    )


def _submissions(given: str | None) -> Path:
    """Return the submissions that are meant: those given, those of the checkout, or those of the
    package.
    """
    if given is not None:
        return Path(given)
    return SUBMISSIONS if SUBMISSIONS.is_dir() else Path(__file__).resolve().parent / "submissions"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
