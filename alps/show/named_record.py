"""Record of a run, as it is named on the command line."""

from collections.abc import Sequence

from alps.errors import UsageError, closest
from alps.run.opened import AnswerKey
from alps.show.formatting import counted
from alps.tasks.registry import track_named, track_title
from alps.text import whole_number


def pick(word: str, keys: Sequence[AnswerKey], *, repeats: int = 1, where: str) -> AnswerKey:
    """Return the answer that `word` names: an id, its beginning, or a number from 1.

    Where a run has several tasks, `TASK/` before it says of which; it is needed where the rest
    means several records. Where records were answered several times, `#2` after it means the second
    answer.

    Args:
        word: As it was typed.
        keys: The first answers to the records of the run, in the order of the data.
        repeats: How often each record was answered.
        where: The run, for messages.

    Raises:
        UsageError: If it means none, or several.
    """
    name, mark, repeat = word.rpartition("#")
    # An id may end in `#2` itself.
    known = set()
    for key in keys:
        known |= {key.id, f"{key.track}/{key.id}"}
    number = whole_number(repeat) or 0
    if mark and word not in known and 1 <= number <= repeats:
        return _pick_record(name, keys, where)._replace(repeat=number - 1)
    return _pick_record(word, keys, where)


def _pick_record(word: str, keys: Sequence[AnswerKey], where: str) -> AnswerKey:
    by_track: dict[str, list[AnswerKey]] = {}
    for key in keys:
        by_track.setdefault(key.track, []).append(key)
    # An id may hold a slash, or be a number: where one is meant exactly, it is.
    if not any(key.id == word for key in keys):
        track, slash, rest = word.partition("/")
        if slash and (named := track_named(track, by_track)):
            return _pick_one(rest, by_track[named], f"{track_title(named)} of {where}")
        if len(by_track) > 1 and word.isdecimal():
            fix = f"write {_typed(next(iter(by_track)))}/{word}, or another task"
            raise UsageError(f"'{word}': {where} has {len(by_track)} tasks; {fix}")
    return _pick_one(word, keys, where)


def _pick_one(word: str, keys: Sequence[AnswerKey], where: str) -> AnswerKey:
    """Return the record that `word` means among `keys`."""
    same: list[AnswerKey] = []
    begun: list[AnswerKey] = []
    for key in keys:
        if key.id == word:
            same.append(key)
        if word and key.id.startswith(word):
            begun.append(key)
    if len(same) > 1:
        raise UsageError(f"'{word}' is in {len(same)} tasks of {where}; write {_either(same)}")
    if same:
        return same[0]
    if 1 <= (whole_number(word) or 0) <= len(keys):
        return keys[int(word) - 1]
    if len(begun) != 1:
        raise _refusal(word, keys, begun, where)
    return begun[0]


def _refusal(
    word: str, keys: Sequence[AnswerKey], begun: Sequence[AnswerKey], where: str
) -> UsageError:
    """Say why `word` names none of `keys`, or more than the one that it is to begin."""
    names = list(dict.fromkeys(key.id for key in begun))
    if len(names) == 1:
        tasks = f"{len(begun)} tasks of {where}"
        return UsageError(f"'{word}' begins an id in {tasks}; write {_either(begun)}")
    if begun:
        few = f"{', '.join(names[:3])}{', …' if len(names) > 3 else ''}"
        return UsageError(
            f"'{word}' begins {len(names)} ids of {where} ({few}); type more of the id"
        )
    if word.isdecimal():
        records = counted(len(keys), "record")
        return UsageError(f"{where} has {records}; no record has number {word[:40]}")
    ids = [key.id for key in keys]
    return UsageError(f"'{word[:200]}': no such record in {where}{closest(word, ids)}")


def _either(keys: Sequence[AnswerKey]) -> str:
    return " or ".join(f"{_typed(key.track)}/{key.id}" for key in keys)


def _typed(track: str) -> str:
    # In one word, as a shell takes it.
    return track_title(track).replace(" ", "-")
