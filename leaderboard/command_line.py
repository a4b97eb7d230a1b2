"""Commands of the leaderboard: `submit`, `verify`, `rescore`, `leaderboard`, `reference`."""

import sys

from alps.commands.common import command, group, takes_time
from alps.completion import takes


@command()
@takes(
    "RUN… [name=…] [org=…] [url=…] [out=DIR]", "alps.leaderboard.settings:SubmitSettings", runs=True
)
@takes_time
def submit(words: tuple[str, ...]) -> None:
    """Pack finished runs of one system into a folder for the leaderboard.

    Shows what will be published.

    \b
      alps submit runs/extraction-rules-samples name="Our rules" dry_run=yes
    """
    from alps.leaderboard.commands import submit_command

    sys.exit(submit_command(words))


@command()
@takes("SUBMISSION [data=…] [base=REF]", "alps.leaderboard.settings:VerifySettings", folders=True)
@takes_time
def verify(words: tuple[str, ...]) -> None:
    """Check a submission without trust: files, ids, hashes, and every printed score.

    Exit 1 where it is refused.

    Nothing from the folder is executed, and no network is needed.

    \b
      alps verify leaderboard/submissions/our-rules
    """
    from alps.leaderboard.commands import verify_command

    sys.exit(verify_command(words))


@command()
@takes("SUBMISSION judge=… [data=PATH]", "alps.leaderboard.settings:RescoreSettings", folders=True)
@takes_time
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


@leaderboard.command("build")
@takes("[submissions=DIR] [out=DIR]", "alps.leaderboard.settings:SiteSettings")
@takes_time
def leaderboard_build(settings: tuple[str, ...]) -> None:
    """Write the site: plain files that any static host can serve, from any path.

    \b
      alps leaderboard build out=site
    """
    from alps.leaderboard.commands import build_command

    sys.exit(build_command(settings))


@leaderboard.command("serve")
@takes("[submissions=DIR] [out=DIR] [port=…]", "alps.leaderboard.settings:ServeSettings")
@takes_time
def leaderboard_serve(settings: tuple[str, ...]) -> None:
    """Build the site and open it on this machine alone.

    \b
      alps leaderboard serve port=8000
    """
    from alps.leaderboard.commands import serve_command

    sys.exit(serve_command(settings))


@command()
@takes(
    "FOLDER… [check=yes] [only=ID] [out=FILE]",
    "alps.leaderboard.references.settings:ReferenceSettings",
    folders=True,
)
@takes_time
def reference(words: tuple[str, ...]) -> None:
    """Recompute the reference rows of the boards from your copy of the public files.

    Says of every row whether it is equal to the digit; with check=yes, exit 1 where one is not.

    \b
      alps reference alpsbench personamem check=yes
      alps reference personamem only=personamem-32k format=json
    """
    from alps.leaderboard.references.command import reference_command

    sys.exit(reference_command(words))
