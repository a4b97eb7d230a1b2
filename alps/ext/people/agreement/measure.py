"""The agreement that `alps annotate agreement` measures: on gold, or on a label folder.

That of a label folder is measured rubric by rubric.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

from alps.errors import UsageError, closest
from alps.event_loop import run_loop
from alps.ext.calibration.agreement import rater_estimates
from alps.ext.calibration.labels import (
    ITEMS,
    LABELS,
    SCALE,
    LabelSet,
    Verdict,
    Verdicts,
    read_labels,
)
from alps.ext.calibration.matrix import LabelMatrix, label_matrix, mean_kappa, pair_figures
from alps.ext.people.agreement.annotations import (
    TITLES,
    TwoPeople,
    annotation_files,
    read_draft,
    read_two,
    release_beside,
)
from alps.ext.people.agreement.gold import GoldDraft, gold_agreement
from alps.ext.people.agreement.matching import PUBLISHERS, JudgeRule, PublishersRule
from alps.ext.people.agreement.rows import (
    AgreementFigure,
    GoldAgreement,
    LabelAgreement,
    LabelledRow,
    PairOfPeople,
)
from alps.ext.people.settings import AgreementSettings
from alps.judges.embedded import EMBEDDED_JUDGES
from alps.llm.ledger import Ledger
from alps.rows import Calls
from alps.run.folder import write_json
from alps.run.progress import progress_line
from alps.run.services import check_judge, open_judge
from alps.run.services import closing as closing_services
from alps.run.session import effective_judge, refuse_without_effect
from alps.run.summary import summarise_calls
from alps.stats.bootstrap import DRAWS

NO_DRAFT = "off"
PAIRS = 15
"""Of how many pairs of people each is shown; a study with many people has thousands."""


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
    return _label_agreement(read_labels(paths[0]), seed=settings.seed)


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


def _label_agreement(labels: LabelSet, *, seed: int = 0, draws: int = DRAWS) -> LabelAgreement:
    """Measure human agreement per rubric; items with one label are left out.

    Kappa is quadratic unless the scale is nominal, and the mean over pairs of people, weighted by
    the items that they share. Derived labels (an adjudication) are nobody's own, and left out.

    Raises:
        UsageError: If no item has labels of two people.
    """
    # The matrix of a judge who said nothing: its rows are all items.
    nobody = Verdicts("", dict.fromkeys(labels.items, Verdict(None)), "")
    rubrics: dict[str, LabelledRow] = {}
    for rubric in labels.rubrics:
        row = _of_rubric(label_matrix(labels, rubric, nobody), seed=seed, draws=draws)
        if row is not None:
            rubrics[rubric] = row
    if not rubrics:
        raise UsageError("no item has labels of two people, which agreement needs")
    return LabelAgreement(labels=labels.sha256, rubrics=rubrics)


def _of_rubric(matrix: LabelMatrix, *, seed: int, draws: int) -> LabelledRow | None:
    columns = dict(zip(matrix.names, zip(*matrix.people, strict=True), strict=True))
    shared: dict[tuple[str, str], int] = {}
    for one, other in combinations(columns, 2):
        pairs = zip(columns[one], columns[other], strict=True)
        if both := sum(None not in pair for pair in pairs):
            shared[one, other] = both
    if not shared:
        return None
    resampling = {"seed": seed, "draws": draws}
    scale, clusters = matrix.scale, matrix.clusters
    kappa = mean_kappa(matrix.people, scale, clusters, **resampling)
    raters = rater_estimates(matrix.people, scale, clusters, **resampling)
    figures = {} if kappa is None else {"kappa": AgreementFigure.of(kappa, "items")}
    for name, estimate in raters.items():
        figures[name] = AgreementFigure.of(estimate, "items")
    chosen = sorted(shared, key=shared.__getitem__, reverse=True)[:PAIRS]
    names = ["agreement", "kappa"] if scale.kind == "nominal" else ["agreement", "kappa", "mae"]
    sides = [(columns[one], columns[other]) for one, other in chosen]
    of_pairs = pair_figures(sides, scale, names, clusters, **resampling)
    rows = []
    for people, estimates in zip(chosen, of_pairs, strict=True):
        own = {name: AgreementFigure.of(estimate, "items") for name, estimate in estimates.items()}
        rows.append(PairOfPeople(people=people, figures=own))
    return LabelledRow(
        kind=scale.kind,
        items=len(matrix.items),
        twice=_twice(matrix.people),
        people=list(columns),
        figures=figures,
        pairs=rows,
    )


def _twice(people: Sequence[Sequence[object]]) -> int:
    return sum(len(row) - row.count(None) >= 2 for row in people)
