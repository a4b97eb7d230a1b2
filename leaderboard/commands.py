"""The commands submit, verify, rescore and leaderboard: from words to output and exit code."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from alps.errors import BudgetError, UsageError
from alps.leaderboard.settings import (
    RescoreSettings,
    ServeSettings,
    SiteSettings,
    SubmitSettings,
    VerifySettings,
)
from alps.leaderboard.submission import CARD, REVIEW, Review, write_card
from alps.leaderboard.unsafe_text import shown
from alps.settings import parse_words, part_words

REFUSED = 1


def submit_command(words: Sequence[str]) -> int:
    """Pack the runs among `words`, show what will be published, and write it; return the exit code.

    Raises:
        AlpsError: If it can't be published so.
    """
    from alps.leaderboard.packing import Details, pack, today
    from alps.leaderboard.verify_report import print_packed
    from alps.run.opened import find_run, open_run

    words_of_runs, words_of_settings = part_words(words)
    settings = parse_words(words_of_settings, SubmitSettings)
    runs = [find_run(word) for word in words_of_runs]
    if not runs:
        raise UsageError("name at least one finished run")
    details = Details(
        name=settings.name or open_run(runs[0]).model,
        submitted=settings.date or today(),
        org=settings.org,
        url=settings.url,
        notes=settings.notes,
        kind=settings.kind,
        snapshot=settings.snapshot,
        open_weights=settings.open_weights,
        public=settings.public,
    )
    console = _console()
    packed = pack(
        runs,
        details,
        out=Path(settings.out) if settings.out else None,
        calls=settings.calls,
        verdicts=settings.verdicts,
        data=settings.data,
        show=lambda about_to_write: print_packed(about_to_write, console),
        write=not settings.dry_run,
    )
    line = f"wrote {packed.folder / CARD}; check it with: alps verify {packed.folder}"
    console.print("Nothing was written (dry_run)." if settings.dry_run else line, markup=False)
    return 0


def verify_command(words: Sequence[str]) -> int:
    """Verify the submission among `words`, print the findings, and return 1 where it is refused.

    Raises:
        UsageError: If not exactly one folder is named, none of a submission, or a setting is not
            understood.
    """
    from alps.leaderboard.verify import Options, verify
    from alps.leaderboard.verify_report import print_verification

    folder, words_of_settings = _one(words)
    settings = parse_words(words_of_settings, VerifySettings)
    options = Options(
        data=settings.data,
        split=settings.split,
        base=settings.base,
        changed=_lines(Path(settings.changed).expanduser()) if settings.changed else None,
        reviewed=settings.reviewed,
        continues=settings.continues,
    )
    earlier = settings.continues
    if earlier is not None and not (folder.resolve().parent / earlier / CARD).is_file():
        beside = shown(str(folder), 200)
        raise UsageError(f"continues={earlier}: no submission of that name beside {beside}")
    verification = verify(folder, options)
    if settings.format == "json":
        print(json.dumps(verification.as_json(), ensure_ascii=False, indent=2))
    else:
        print_verification(verification, _console())
    if settings.record and not verification.serious:
        _record(folder, settings, verification.recomputed)
    return REFUSED if verification.serious else 0


def _record(folder: Path, settings: VerifySettings, recomputed: Sequence[str]) -> None:
    """Note in `review.json` that a submission is in order; what is noted there stays."""
    from alps.leaderboard.packing import today
    from alps.leaderboard.strict_reader import read_model

    path = folder / REVIEW
    joined: dict[str, Any] = {}
    if settings.continues not in (None, folder.resolve().name):
        joined["continues"] = settings.continues
    if path.exists():
        if joined:
            write_card(path, read_model(path, Review).model_copy(update=joined))
        return
    review = Review(status="format-checked", date=today(), tracks={}, note=None)
    if settings.data is not None:
        joined["recomputed"] = list(recomputed)
    write_card(path, review.model_copy(update=joined))


def rescore_command(words: Sequence[str]) -> int:
    """Judge the predictions of the submission among `words` again; return the exit code.

    It is 1 where too many have no verdict, or a submitted score was refuted.

    Raises:
        AlpsError: If the submission, the judge or the data can't be used, or the budget is spent.
    """
    from alps.leaderboard.rescore import rescore
    from alps.llm.options import key_of
    from alps.report.tables import show_estimate
    from alps.run.estimate import Stage

    folder, words_of_settings = _one(words)
    settings = parse_words(words_of_settings, RescoreSettings)

    def show(stages: Sequence[Stage]) -> None:
        most = settings.max_total_tokens
        show_estimate(stages, max_cost=settings.max_cost, max_total_tokens=most)

    done = rescore(folder, settings, list(map(key_of, words_of_settings)), tell=show)
    if done is None:
        return 0
    if done.budget_spent:
        raise BudgetError("stopped by the budget; the same command with a larger one goes on")
    console = _console()
    if done.too_many_unscored:
        console.print("Too many answers have no verdict: no review was written.", markup=False)
        return REFUSED
    for contradiction in done.refuted:
        console.print(f"refuted: {contradiction}", markup=False)
    line = f"wrote {shown(str(done.path), 200)}: {done.review.status} under {settings.judge}"
    console.print(line, markup=False)
    return REFUSED if done.refuted else 0


def build_command(words: Sequence[str]) -> int:
    """Build the site and say what it holds; return the exit code.

    Raises:
        UsageError: If a word is not understood, or there is nothing to read.
        DataError: If a submission can't be read.
    """
    print(_build(parse_words(words, SiteSettings)))
    return 0


def serve_command(words: Sequence[str]) -> int:
    """Build the site and serve it on loopback until interrupted; return the exit code.

    Raises:
        UsageError: If a word is not understood, or the port is taken.
        DataError: If a submission can't be read.
    """
    from alps.leaderboard.site import serve

    settings = parse_words(words, ServeSettings)
    if settings.build:
        print(_build(settings))
    with serve(Path(settings.out), port=settings.port) as server:
        host, port = server.server_address[:2]
        print(f"http://{host!s}:{port}/ (Ctrl-C ends it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0


def _build(settings: SiteSettings) -> str:
    from alps.leaderboard.checks.files import SUBMISSIONS
    from alps.leaderboard.site import build

    # Those given, those of the checkout, or those of the package.
    own = Path(__file__).resolve().parent / "submissions"
    submissions = SUBMISSIONS if SUBMISSIONS.is_dir() else own
    if settings.submissions is not None:
        submissions = Path(settings.submissions)
    built = build(submissions, Path(settings.out))
    counts = f"{_many(built.submissions, 'submission')} on {_many(built.boards, 'board')}"
    size = f"{_many(built.pages, 'page')}, {built.bytes / 1e6:,.1f} MB"
    left = f"\nleft there, changed since it was built: {', '.join(built.left)}"
    return f"{built.out / 'index.html'}: {counts}, {size}{left if built.left else ''}"


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


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
    from alps.run.opened import MANIFEST

    named = shown(word, 200) or "''"
    if not word.strip() or not os.path.lexists(folder):
        return f"{named}: no such folder; name the folder of a submission"
    if (folder / MANIFEST).is_file():
        return f"{named}: a run, and no submission yet; alps submit {named} makes one of it"
    names = []
    if folder.is_dir():
        names = sorted(path.name for path in folder.iterdir() if (path / CARD).is_file())
    if names:
        first = shown(str(folder / names[0]), 200)
        return f"{named}: holds {len(names):,} submissions; name one of them, as {first}"
    return f"{named}: no {CARD} there; name the folder of a submission"


def _lines(path: Path) -> tuple[str, ...]:
    try:
        return tuple(line for line in path.read_text(encoding="utf-8").splitlines() if line)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise UsageError(f"changed={path}: can't be read ({reason})") from error


def _console() -> Any:
    from alps.report.terminal import terminal

    return terminal()
