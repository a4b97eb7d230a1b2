"""The retrieval pools of a data set as files in the release layout."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from alps.data.pools import QUERIES, SIZES, PoolSource
from alps.data.release import Split, open_split, write_track
from alps.errors import UsageError


def write_pools(
    data: str, split: str | None, *, out: str, sizes: Sequence[int] | None, seed: int
) -> Iterator[str]:
    """Write pools of the given sizes, or of every size that there is data for; yield a line each.

    Raises:
        UsageError: If the data can't give them, or `out` holds other pools already.
    """
    opened = open_split(data, split)
    if not isinstance(opened, Split):
        raise UsageError(f"data={data}: alps builds pools from a local copy; name its folder")
    source = PoolSource(opened, seed=seed)
    folders = {size: Path(out) / opened.name / QUERIES / f"d{size}" for size in sizes or SIZES}
    if there := next(filter(Path.exists, folders.values()), None):
        raise UsageError(f"out={out}: {there} already exists; choose another folder")
    for number, (size, folder) in enumerate(folders.items()):
        try:
            pairs = list(source.rows(size))
        except UsageError as error:
            # With too few memories for the smallest pools there are none.
            if sizes is not None or number == 0:
                raise
            yield f"{size} distractors: left out ({error})"
            continue
        n, share = write_track(folder, pairs), source.generated_share(size)
        made = f", {share:.0%} of the distractors generated" if share else ""
        yield f"{folder}: {n} {'pool' if n == 1 else 'pools'} of {size} distractors{made}"
