"""The agreement that `alps annotate agreement` measures: on gold, or on a label folder."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from alps.errors import UsageError, closest
from alps.event_loop import run_loop
from alps.ext.calibration.labels import ITEMS, LABELS, SCALE, read_labels
from alps.ext.people.agreement.annotations import (
    TITLES,
    TwoPeople,
    annotation_files,
    read_draft,
    read_two,
    release_beside,
)
from alps.ext.people.agreement.gold import GoldDraft, gold_agreement
from alps.ext.people.agreement.labelled import label_agreement
from alps.ext.people.agreement.matching import PUBLISHERS, JudgeRule, PublishersRule
from alps.ext.people.agreement.rows import GoldAgreement, LabelAgreement
from alps.ext.people.agreement.settings import AgreementSettings
from alps.judges.resolve import EMBEDDED_JUDGES
from alps.llm.ledger import Ledger
from alps.rows import Calls
from alps.run.folder import write_json
from alps.run.progress import progress_line
from alps.run.services import check_judge, open_judge
from alps.run.services import closing as closing_services
from alps.run.session import effective_judge, refuse_without_effect
from alps.run.summary import summarise_calls

NO_DRAFT = "off"


@dataclass(frozen=True)
class Measured:
    """What was measured, and what asking a judge took; None where none was asked."""

    row: GoldAgreement | LabelAgreement
    calls: Calls | None = None
    budget_spent: bool = False
    too_many_unjudged: bool = False

    def as_json(self) -> dict[str, object]:
        """Return the result as JSON values."""
        return self.row.as_json()


def measure(words: Sequence[str], settings: AgreementSettings) -> Measured:
    """Measure how far people agree, and write it where `out` says.

    Args:
        words: A folder that holds the annotations of two people, or their two files, or a label
            folder.
        settings: How.

    Raises:
        AlpsError: If labels, draft, rule or file can't be used.
    """
    if not words:
        raise UsageError("name a folder with annotations, two files of them, or a label folder")
    paths = [Path(word).expanduser() for word in words]
    files = annotation_files(paths)
    if files:
        settings = _with_judge(settings)
        people = read_two(files)
        measured = _on_gold(people, _draft(settings.draft, people), settings)
    else:
        measured = Measured(_on_labels(paths, settings))
    if settings.out is not None:
        write_row(measured.row, Path(settings.out))
    return measured


def _on_labels(paths: Sequence[Path], settings: AgreementSettings) -> LabelAgreement:
    if len(paths) > 1:
        raise UsageError(f"{paths[1]}: name one label folder at a time")
    if not any((paths[0] / name).exists() for name in (ITEMS, LABELS, SCALE)):
        raise UsageError(f"{paths[0]}: no annotator_….jsonl in it, and no label folder")
    for name in ("rule", "draft"):
        if name in settings.model_fields_set:
            why = "labels of a label folder are compared on their scale"
            given = getattr(settings, name)
            raise UsageError(f"{name}={given} would change nothing: {why}; leave it out")
    return label_agreement(read_labels(paths[0]), seed=settings.seed)


def write_row(row: GoldAgreement | LabelAgreement, path: Path) -> None:
    """Write an agreement file.

    Raises:
        UsageError: If it can't be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, row.as_json())
    except OSError as error:
        raise UsageError(f"out={path}: {error.strerror}; choose another file") from error


def _with_judge(settings: AgreementSettings) -> AgreementSettings:
    """Return the settings with the judge that matches, after what has no effect is refused."""
    if settings.judge:
        raise UsageError(f"judge={settings.judge}: write rule={settings.judge}")
    known = (PUBLISHERS, *EMBEDDED_JUDGES)
    if settings.rule not in known and "/" not in settings.rule:
        rules = f"{', '.join(known)}, or a litellm model"
        hint = closest(settings.rule, known)
        raise UsageError(f"rule={settings.rule}: unknown rule{hint} ({rules})")
    judge = EMBEDDED_JUDGES[0] if settings.rule == PUBLISHERS else settings.rule
    settings = settings.model_copy(update={"judge": judge})
    refuse_without_effect(settings)
    return settings


def _draft(name: str | None, people: TwoPeople) -> GoldDraft:
    """Return the draft that both people started from, where it is named or lies beside them."""
    if name == NO_DRAFT:
        return GoldDraft()
    path = release_beside(people.folder) if name is None else Path(name)
    return GoldDraft() if path is None else GoldDraft(path.name, read_draft(path))


def _on_gold(people: TwoPeople, draft: GoldDraft, settings: AgreementSettings) -> Measured:
    if settings.rule == PUBLISHERS:
        return Measured(run_loop(gold_agreement(people, PublishersRule(), draft)))
    settings = effective_judge(settings)
    check_judge(settings)
    # What a judge answered is in the cache of replies: the same command asks nothing again.
    with (
        TemporaryDirectory() as scratch,
        closing(Ledger(Path(scratch) / "calls.jsonl")) as ledger,
    ):

        async def ask() -> GoldAgreement:
            async with closing_services(open_judge(settings, ledger)) as services:
                lists = len(people.sessions[0]) * len(TITLES)
                with progress_line("matching", lists, ledger.totals) as progress:
                    rule = JudgeRule(services.judge)
                    return await gold_agreement(people, rule, draft, done=progress)

        row = run_loop(ask())
        missed = sum(row.unjudged.values())
        most = settings.max_failures * (row.matched + missed)
        calls = summarise_calls(ledger.totals)
        return Measured(row, calls, "budget" in row.unjudged, missed > most)
