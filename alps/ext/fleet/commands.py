"""The command `merge`."""

from pathlib import Path

from alps.commands import allow_typed, command, show_finished


@command("OUT SHARD…", runs=True, raw=True)
def merge(words: tuple[str, ...]) -> None:
    """Merge the shards of a run.

    Merging sends no requests.

    \b
      alps run task=extraction model=rules shard=1/2 out=first
      alps run task=extraction model=rules shard=2/2 out=second
      alps merge whole first second
    """
    from alps.ext.fleet.merge import merge as merge_shards
    from alps.run.opened import find_run

    out, *shards = allow_typed(words)
    found = [find_run(shard) for shard in shards]
    show_finished(lambda: merge_shards(Path(out).expanduser(), found))
