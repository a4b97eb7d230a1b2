"""Submissions and the static leaderboard."""

import sys

from alps.commands import command, group
from alps.extension import Extension


@group()
def leaderboard() -> None:
    """Publish runs."""


@command(
    "RUN… [name=…] [org=…] [url=…] [out=DIR]",
    "alps.leaderboard.settings:SubmitSettings",
    name="submit",
    group=leaderboard,
    runs=True,
    raw=True,
)
def leaderboard_submit(words: tuple[str, ...]) -> None:
    """Pack finished runs of one system as a submission.

    The output shows what will be published.

    \b
      alps leaderboard submit runs/mine name="Our rules" dry_run=yes
    """
    from alps.leaderboard.commands import submit_command

    sys.exit(submit_command(words))


@command(
    "SUBMISSION [data=…] [base=REF]",
    "alps.leaderboard.settings:VerifySettings",
    name="verify",
    group=leaderboard,
    folders=True,
    raw=True,
)
def leaderboard_verify(words: tuple[str, ...]) -> None:
    """Check a submission: files, ids, hashes, and every score.

    The exit code is 1 if the submission is refused.

    Verification runs no code from the folder and needs no network.

    \b
      alps leaderboard verify leaderboard/submissions/our-rules
    """
    from alps.leaderboard.commands import verify_command

    sys.exit(verify_command(words))


@command(
    "SUBMISSION judge=… [data=PATH]",
    "alps.leaderboard.settings:RescoreSettings",
    name="rescore",
    group=leaderboard,
    folders=True,
    raw=True,
)
def leaderboard_rescore(words: tuple[str, ...]) -> None:
    """Judge a submission again, as a maintainer, and write its review.

    \b
      alps leaderboard rescore leaderboard/submissions/bm25 judge=openai/gpt-4.1
    """
    from alps.leaderboard.commands import rescore_command

    sys.exit(rescore_command(words))


@command(
    "[submissions=DIR] [out=DIR]",
    "alps.leaderboard.settings:SiteSettings",
    name="build",
    group=leaderboard,
    raw=True,
)
def leaderboard_build(words: tuple[str, ...]) -> None:
    """Build the site: plain files that any static host can serve, from any path.

    \b
      alps leaderboard build out=site
    """
    from alps.leaderboard.commands import build_command

    sys.exit(build_command(words))


@command(
    "[submissions=DIR] [out=DIR] [port=…]",
    "alps.leaderboard.settings:ServeSettings",
    name="serve",
    group=leaderboard,
    raw=True,
)
def leaderboard_serve(words: tuple[str, ...]) -> None:
    """Build the site and serve it on this machine.

    \b
      alps leaderboard serve port=8000
    """
    from alps.leaderboard.commands import serve_command

    sys.exit(serve_command(words))


EXTENSION = Extension(
    "leaderboard",
    commands={"leaderboard": "alps.leaderboard:leaderboard"},
    heading="Leaderboard",
    moved={name: f"leaderboard {name}" for name in ("submit", "verify", "rescore")},
)
