"""Commands of the leaderboard: `submit`, `verify`, `rescore`, `leaderboard`."""

import sys

from alps.commands.common import command, group


@command(
    "RUN… [name=…] [org=…] [url=…] [out=DIR]",
    "alps.leaderboard.settings:SubmitSettings",
    runs=True,
    raw=True,
)
def submit(words: tuple[str, ...]) -> None:
    """Pack finished runs of one system into a folder for the leaderboard.

    Shows what will be published.

    \b
      alps submit runs/extraction-rules-samples name="Our rules" dry_run=yes
    """
    from alps.leaderboard.commands import submit_command

    sys.exit(submit_command(words))


@command(
    "SUBMISSION [data=…] [base=REF]",
    "alps.leaderboard.settings:VerifySettings",
    folders=True,
    raw=True,
)
def verify(words: tuple[str, ...]) -> None:
    """Check a submission without trust: files, ids, hashes, and every printed score.

    Exit 1 where it is refused.

    Nothing from the folder is executed, and no network is needed.

    \b
      alps verify leaderboard/submissions/our-rules
    """
    from alps.leaderboard.commands import verify_command

    sys.exit(verify_command(words))


@command(
    "SUBMISSION judge=… [data=PATH]",
    "alps.leaderboard.settings:RescoreSettings",
    folders=True,
    raw=True,
)
def rescore(words: tuple[str, ...]) -> None:
    """Judge the predictions of a submission again, as a maintainer, and write its review.

    \b
      alps rescore leaderboard/submissions/our-rules judge=openai/gpt-4.1
    """
    from alps.leaderboard.commands import rescore_command

    sys.exit(rescore_command(words))


@group()
def leaderboard() -> None:
    """Build the static leaderboard out of its submissions, or look at it."""


@command(
    "[submissions=DIR] [out=DIR]",
    "alps.leaderboard.settings:SiteSettings",
    name="build",
    group=leaderboard,
    raw=True,
)
def leaderboard_build(words: tuple[str, ...]) -> None:
    """Write the site: plain files that any static host can serve, from any path.

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
    """Build the site and open it on this machine alone.

    \b
      alps leaderboard serve port=8000
    """
    from alps.leaderboard.commands import serve_command

    sys.exit(serve_command(words))
