"""Keys of sets of histories and questions."""

from pydantic import Field

from alps.keys import Keys


class HistoriesKeys(Keys):
    """The keys of a run that are about sets of histories and questions."""

    set: str | None = Field(
        None,
        description="which files of a set: oracle, s or m (longmemeval), medium or long (halumem)",
    )
