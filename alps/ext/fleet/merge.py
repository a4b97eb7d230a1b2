"""Merging of shards into the run that they are parts of."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from alps.errors import RunFolderError, UsageError
from alps.ext.fleet.settings import shard_data, shard_of
from alps.ext.sizes import smaller_sizes
from alps.ext.sizes.part import folder_of
from alps.extension import extensions
from alps.judges.admission import CHECK_FILE
from alps.run.folder import difference_between, repeating, write_json
from alps.run.opened import MANIFEST, RunFolder, manifest_row, open_run, read_rows
from alps.run.parts import parts_of
from alps.run.session import RunSession
from alps.run.source import RunData, open_again, refuse_changed, settings_of_run
from alps.run.start import finish
from alps.run.summary import Finished
from alps.settings import RunSettings, parse_settings
from alps.show.formatting import counted

_OF_RECORDS = ("predictions.jsonl", "verdicts.jsonl", "scores.jsonl")
_JOURNALS = (*_OF_RECORDS, "baselines.jsonl", "calls.jsonl", CHECK_FILE)


def journals() -> tuple[str, ...]:
    """Return the names of all files of a shard that have rows, those of extensions among them."""
    names: tuple[str, ...] = _JOURNALS
    for extension in extensions():
        names += extension.journals
    return names


@dataclass(frozen=True)
class _Shard:
    run: RunFolder
    number: int
    count: int
    manifest: Mapping[str, Any]

    @property
    def folder(self) -> Path:
        return self.run.folder

    def whole(self) -> dict[str, Any]:
        """Return the manifest of the run that this is a shard of."""
        settings = {**self.manifest["settings"]}
        settings.pop("shard")
        return {**self.manifest, "settings": settings}


def merge(
    out: Path,
    folders: Sequence[Path],
    *,
    typed: Mapping[str, Any] | None = None,
    data: RunData | None = None,
) -> Finished:
    """Merge finished shards into the folder of the undivided run; nothing is asked.

    The journals of all shards are one after the other what an undivided run might have left that
    was killed after its last answer. So it is finished like one: scored and summarised anew.

    Args:
        out: The folder to write, which must not exist.
        folders: The run folders of all shards, in any order.
        typed: Settings that no manifest has, such as `max_failures`.
        data: Those of the undivided run, where they are open already.

    Raises:
        UsageError: If a shard is missing, there twice, or not finished.
        RunFolderError: If they are not shards of one run, the data changed, or a shard has answers
            to records of another.
    """
    if out.exists():
        raise UsageError(f"{out}: already exists; choose another folder")
    shards = _complete([_open(folder) for folder in folders])
    first = shards[0].run
    if data is None:
        settings, data = open_again(first.folder, first.manifest)
    else:
        settings = settings_of_run(first.folder, first.manifest.settings)
        refuse_changed(first.folder, first.manifest, settings, data)
    places = [Path(), *(folder_of(Path(), size) for size in smaller_sizes(settings))]
    for shard in shards:
        _refuse_strangers(shard, data, places)
    # What was killed while it merged left this folder and no other.
    place = out.with_name(f"{out.name}.merging")
    shutil.rmtree(place, ignore_errors=True)
    for inside in places:
        (place / inside).mkdir(parents=True, exist_ok=True)
        for name in journals():
            _write_together(place / inside / name, [one.folder / inside / name for one in shards])
    manifest = shards[0].whole()
    write_json(place / MANIFEST, manifest)
    whole = _whole(settings, out, typed or {})
    session = RunSession(whole, data, place, parts=parts_of(whole, place))
    finished = finish(session, manifest, repeating(out))
    place.rename(out)
    return replace(finished, folder=out)


def _whole(settings: RunSettings, out: Path, typed: Mapping[str, Any]) -> RunSettings:
    """Return the settings of the undivided run, with no more than was chosen in them."""
    chosen = {}
    for name, field in RunSettings.model_fields.items():
        value = getattr(settings, name)
        if name != "shard" and (field.is_required() or value != field.default):
            chosen[name] = value
    return parse_settings({**chosen, **typed, "out": str(out)}, RunSettings)


def _open(folder: Path) -> _Shard:
    run = open_run(folder)
    shard = run.manifest.settings.get("shard")
    if shard is None:
        raise UsageError(f"{folder}: not a shard; this run was made without shard=")
    _ = run.finished  # one that was killed is refused
    try:
        number, count = shard_of(str(shard))
    except ValueError as error:
        raise RunFolderError(f"{folder}: {MANIFEST}, settings.shard: {error}") from error
    return _Shard(run, number, count, manifest_row(folder))


def _complete(shards: Sequence[_Shard]) -> list[_Shard]:
    """Return the shards in their order, if they are all of one run."""
    if not shards:
        raise UsageError("name the run folders of the shards")
    first = shards[0]
    by_number: dict[int, _Shard] = {}
    for shard in shards:
        if difference := difference_between(first.whole(), shard.whole()):
            raise RunFolderError(
                f"{shard.folder}: not from the same run as {first.folder}: {difference}"
            )
        if shard.count != first.count:
            raise RunFolderError(
                f"{shard.folder} is one of {shard.count} shards, but {first.folder} is one of "
                f"{first.count}; merge only shards of the same run"
            )
        twin = by_number.setdefault(shard.number, shard)
        if twin is not shard:
            raise UsageError(
                f"{shard.folder}: shard {shard.number}/{shard.count} appears twice, also in "
                f"{twin.folder}"
            )
    missing = [str(n) for n in range(1, first.count + 1) if n not in by_number]
    if missing:
        raise UsageError(f"{first.count} shards are needed; add these: {', '.join(missing)}")
    return [by_number[number] for number in sorted(by_number)]


def _refuse_strangers(shard: _Shard, data: RunData, inside: Sequence[Path]) -> None:
    """Refuse a shard with records of another, as one has over which that one was copied.

    `inside` are the folders within it that have journals, itself among them.
    """
    sessions = shard_data(data, shard.number, shard.count).sessions or frozenset()
    own: dict[str, set[str]] = {}
    for track in data.tracks:
        inside_own = (record for record in track.named() if record.session_id in sessions)
        own[track.task.track] = {record.benchmark_id for record in inside_own}
    seen = _records_in(shard, inside)
    strange = sorted(key for key in seen if key[1] not in own.get(key[0], ()))
    if strange:
        what = f"{counted(len(strange), 'answer')} to records outside shard"
        which = f"{shard.number}/{shard.count}, such as {'/'.join(strange[0])}"
        raise RunFolderError(f"{shard.folder}: {what} {which}; run this shard again")


def _records_in(shard: _Shard, inside: Sequence[Path]) -> set[tuple[str, str]]:
    """Return the track and the id of each record that journals of a shard are about."""
    seen = set()
    for place in inside:
        for name in _OF_RECORDS:
            keys = read_rows(shard.folder / place / name, track=shard.run.unnamed)
            seen |= {(key.track, key.id) for key in keys}
    return seen


def _write_together(path: Path, parts: Sequence[Path]) -> None:
    present = [part for part in parts if part.exists()]
    if not present:
        return
    with path.open("wb") as file:
        for part in present:
            with part.open("rb") as rows:
                shutil.copyfileobj(rows, file)
