"""`alps submit`, `alps verify` and `alps rescore`: from words to what is printed, and the exit
code.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from alps.errors import BudgetError, UsageError
from alps.leaderboard.card import Details
from alps.leaderboard.findings import Verification
from alps.leaderboard.pack import pack, today
from alps.leaderboard.settings import RescoreSettings, SubmitSettings, VerifySettings
from alps.leaderboard.strict_reader import read_model
from alps.leaderboard.submission import CARD, REVIEW, Review, write_card
from alps.leaderboard.unsafe_text import shown
from alps.leaderboard.verify import Options, verify
from alps.llm.options import key_of
from alps.report.runs import MANIFEST
from alps.settings import parse_words, part_words

REFUSED = 1


def submit_command(words: Sequence[str]) -> int:
    """Pack the runs among `words`, show what will be published, and write it unless it is only to
    be shown.

    Raises:
        AlpsError: If it can't be published so.
    """
    from alps.leaderboard.verify_table import print_packed
    from alps.report.runs import find_run, open_run

    words_of_runs, settings = part_words(words)
    parsed = parse_words(settings, SubmitSettings)
    runs = [find_run(word) for word in words_of_runs]
    if not runs:
        raise UsageError("name at least one finished run")
    details = Details(
        name=parsed.name or open_run(runs[0]).model,
        submitted=parsed.date or today(),
        **{part: getattr(parsed, part) for part in ("org", "url", "notes", "kind", "snapshot")},
        open_weights=parsed.open_weights,
        public=parsed.public,
    )
    console = _console()
    packed = pack(
        runs,
        details,
        out=Path(parsed.out) if parsed.out else None,
        calls=parsed.calls,
        verdicts=parsed.verdicts,
        data=parsed.data,
        show=lambda shown_first: print_packed(shown_first, console),
        write=not parsed.dry_run,
    )
    if parsed.dry_run:
        console.print("Nothing was written (dry_run).", markup=False)
    else:
        console.print(
            f"wrote {packed.folder / CARD}; alps verify {packed.folder} is what will be run on it",
            markup=False,
        )
    return 0


def verify_command(words: Sequence[str]) -> int:
    """Verify the submission among `words`, print what was found, and return 1 where it is refused.

    Raises:
        UsageError: If not exactly one folder is named, none of a submission, or a setting is not
            understood.
    """
    from alps.leaderboard.verify_table import print_verification

    folder, settings = _one(words)
    parsed = parse_words(settings, VerifySettings)
    options = Options(
        data=parsed.data,
        split=parsed.split,
        base=parsed.base,
        changed=_lines(Path(parsed.changed).expanduser()) if parsed.changed else None,
        reviewed=parsed.reviewed,
        continues=parsed.continues,
    )
    if (
        parsed.continues is not None
        and not (folder.resolve().parent / parsed.continues / CARD).is_file()
    ):
        raise UsageError(
            f"continues={parsed.continues}: no submission of that name beside {shown(str(folder), 200)}"
        )
    found = verify(folder, options)
    if parsed.format == "json":
        print(json.dumps(found.as_json(), ensure_ascii=False, indent=2))
    else:
        print_verification(found, _console())
    if parsed.record and not found.serious:
        _record(folder, parsed, found)
    return REFUSED if found.serious else 0


def _record(folder: Path, settings: VerifySettings, found: Verification) -> None:
    """Note in `review.json` that a submission is in order, and which one it continues.

    What is noted there stays.
    """
    path = folder / REVIEW
    joined = (
        {"continues": settings.continues}
        if settings.continues not in (None, folder.resolve().name)
        else {}
    )
    if path.exists() and not joined:
        return
    if path.exists():
        write_card(path, read_model(path, Review).model_copy(update=joined))
        return
    review = Review(status="schema-valid", date=today(), tracks={}, note=None)
    seen = {"recomputed": list(found.recomputed)} if settings.data is not None else {}
    write_card(path, review.model_copy(update={**seen, **joined}))


def rescore_command(words: Sequence[str]) -> int:
    """Judge the predictions of the submission among `words` again.

    Returns 1 where too many have no verdict, or a submitted score was refuted.

    Raises:
        AlpsError: If the submission, the judge or the data can't be used, or the budget is spent.
    """
    from alps.leaderboard.rescore import rescore
    from alps.report.tables import show_estimate
    from alps.run.estimate import Stage

    folder, settings = _one(words)
    parsed = parse_words(settings, RescoreSettings)

    def tell(stages: Sequence[Stage]) -> None:
        show_estimate(stages, max_cost=parsed.max_cost, max_total_tokens=parsed.max_total_tokens)

    done = rescore(folder, parsed, list(map(key_of, settings)), tell=tell)
    if done is None:
        return 0
    if done.budget_spent:
        raise BudgetError("stopped by the budget; the same command with a larger one goes on")
    if done.too_many_unscored:
        _console().print("Too many answers have no verdict: no review was written.", markup=False)
        return REFUSED
    for contradiction in done.refuted:
        _console().print(f"refuted: {contradiction}", markup=False)
    _console().print(
        f"wrote {shown(str(done.path), 200)}: {done.review.status} under {parsed.judge}",
        markup=False,
    )
    return REFUSED if done.refuted else 0


def _one(words: Sequence[str]) -> tuple[Path, list[str]]:
    folders, settings = part_words(words)
    if len(folders) != 1:
        raise UsageError(f"name one submission, not {len(folders)}")
    folder = Path(folders[0]).expanduser()
    if not folders[0].strip() or not os.path.lexists(folder / CARD):
        raise UsageError(_no_submission(folders[0], folder))
    return folder, settings


def _no_submission(word: str, folder: Path) -> str:
    """Say what lies where a submission was named, and what to name instead."""
    named = shown(word, 200) or "''"
    if not word.strip() or not os.path.lexists(folder):
        return f"{named}: no such folder; name the folder of a submission"
    if (folder / MANIFEST).is_file():
        return f"{named}: a run, and no submission yet; alps submit {named} makes one of it"
    held = (
        sorted(path.name for path in folder.iterdir() if (path / CARD).is_file())
        if folder.is_dir()
        else []
    )
    if held:
        return f"{named}: holds {len(held):,} submissions; name one of them, as {shown(str(folder / held[0]), 200)}"
    return f"{named}: no {CARD} there; name the folder of a submission"


def _lines(path: Path) -> tuple[str, ...]:
    try:
        return tuple(line for line in path.read_text(encoding="utf-8").splitlines() if line)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"changed={path}: can't be read ({getattr(error, 'strerror', None) or 'not UTF-8'})"
        ) from error


def _console() -> Any:
    from alps.report.terminal import terminal

    return terminal()
