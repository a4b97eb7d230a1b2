"""Sets written in the form of one's own."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from alps.errors import UsageError, closest
from alps.ext.histories import READERS, SETS
from alps.ext.histories.book import find, stories
from alps.ext.histories.data.histories import HISTORIES, QUESTIONS, write
from alps.ext.histories.files import SetChoice
from alps.ext.histories.model import CitedSet, Story
from alps.extension import load
from alps.keys import DATA, FrozenSettings, HomePath
from alps.show.formatting import counted


class SetSettings(FrozenSettings):
    """Set and output folder of a conversion."""

    task: str = Field(description="the set")
    data: str = Field("samples", description=DATA)
    out: HomePath = Field(description="folder to write")
    set: str | None = Field(None, description="file of the set, if it has several")
    size: str | None = Field(None, description="size of the set, if it has several")


class ConvertSettings(SetSettings):
    """What `alps data convert` takes."""


def set_of(name: str) -> CitedSet:
    """Return the set whose task is called `name`.

    Raises:
        UsageError: If there is none.
    """
    if name not in SETS:
        known = ", ".join(SETS)
        raise UsageError(f"task={name}: unknown set{closest(name, SETS)} (known: {known})")
    cited: CitedSet = load(f"{READERS}.{name}:SET")
    return cited


def convert(settings: ConvertSettings) -> str:
    """Write a set into a folder; return what was written.

    Raises:
        UsageError: If there is no such set, or the folder has one already.
        DataError: If a file can't be read.
    """
    cited = set_of(settings.task)
    out = Path(settings.out)
    for name in (HISTORIES, QUESTIONS):
        if (out / name).exists():
            raise UsageError(f"out={settings.out}: has a {name} already; name another folder")
    choice = cited.choose(SetChoice(settings.set, settings.size))
    found = cited.files(find(cited, settings.data, choice), choice)

    def read() -> Iterator[Story]:
        for _, story in stories(cited, found.stories):
            yield story

    histories, questions = write(out, read())
    all_histories = counted(histories, "history", "histories")
    return f"wrote {all_histories} and {counted(questions, 'question')} in {settings.out}"
