"""A cheap judge of memory matching, fitted to the verdicts that runs hold.

What is learnt is whether the runs' judge named a pair at all, and whether it was a match under the
lenient policy. The agreement is measured on sessions that a fit has not seen: cross-validation
keeps the pairs of a session together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from alps.errors import RunFolderError, UsageError
from alps.ext.audits.intervals import clustered_statistics
from alps.ext.calibration import FITTED
from alps.ext.calibration.agreement import (
    LabelScale,
    disagreement,
    kappa_of,
    on_table,
    pair_features,
)
from alps.ext.calibration.calibration_file import two_decimals
from alps.ext.calibration.judge_of_run import JudgeCall, asked_in
from alps.ext.calibration.judges import AMONG_OTHERS, OF_A_PAIR, Fitted, LogisticLine, features_of
from alps.ext.calibration.settings import CalibrateSettings
from alps.jsonl import Row
from alps.judges.base import POLICIES, MatchQuestion
from alps.judges.embedded import RECORDED, is_embedded_judge
from alps.run.opened import find_run, open_run, read_rows
from alps.run.source import open_again
from alps.show.formatting import counted
from alps.similarity import THRESHOLD
from alps.stats.bootstrap import Estimate, Floats

if TYPE_CHECKING:
    from rich.console import Console

# A kappa hangs on how the folds fall: five partitions are averaged.
FOLDS, REPEATS = 10, 5
LEAST = 20
"""Matches, named pairs that are none, and others, below which nothing is fitted."""
# The inverse strength of the penalty on standardised weights: from .1 to 1 kappas on recorded
# verdicts differ by .01.
PENALTY = 0.1

Flags = NDArray[np.bool_]
_YES_OR_NO = LabelScale("nominal", (False, True))


@dataclass(frozen=True)
class Examples:
    """The pairs that judges of runs were asked about, in columns.

    Attributes:
        values: Their features.
        named: Whether the judge named the pair, whatever the relation.
        same: Whether it is a match.
        sessions: The session of each.
    """

    values: Floats
    named: Flags
    same: Flags
    sessions: Sequence[str]
    judges: Sequence[str]

    @property
    def lexical(self) -> Flags:
        """What `lexical` says of them."""
        return np.asarray(self.values[:, OF_A_PAIR.index("similarity")] >= THRESHOLD)


@dataclass(frozen=True)
class Fit:
    """A fitted judge, and kappas on held-out sessions: of named pairs, and of all pairs.

    No pair has identical values: no judge is asked about those.
    """

    file: Path
    fitted: Fitted
    kappas: dict[str, dict[str, Estimate]]


def fit_judge(settings: CalibrateSettings) -> Fit:
    """Fit a judge to the verdicts of runs, and write its file.

    Raises:
        AlpsError: If a run can't be used, holds too few verdicts, or the file is there already.
    """
    if settings.judge or settings.verdicts:
        why = "leave judge= and verdicts= out"
        raise UsageError(f"fit=yes learns from the verdicts of labels=RUN; {why}")
    if not settings.out:
        raise UsageError("fit=yes: name the file to write, such as out=cheap.json")
    file = Path(settings.out)
    if file.exists():
        # Scores are bound to what a judge's file holds.
        raise RunFolderError(f"out={file}: the file already exists; name another file")
    examples = read_examples([find_run(name) for name in settings.labels.split(",")])
    _check(examples)
    kappas = cross_validated(examples, settings.seed)
    fitted = _fitted(examples, kappas)
    _write(file, fitted.model_dump_json(indent=1) + "\n")
    return Fit(file, fitted, kappas)


def read_examples(runs: Sequence[Path]) -> Examples:
    """Read every pair that the judges of runs were asked about, with what they said.

    Raises:
        UsageError: If a run is not finished, or an embedded judge judged it.
    """
    rows: list[tuple[Floats, bool, bool, str]] = []
    judges = []
    for folder in runs:
        run = open_run(folder)
        if is_embedded_judge(run.judge) and not run.judge.startswith(RECORDED):
            why = f"the verdicts of judge {run.judge} cannot train a judge"
            raise UsageError(f"{folder}: {why}; use a run that an LLM judged")
        judges.append(run.finished.judge)
        verdicts = read_rows(folder / "verdicts.jsonl")
        rows_by_answer = {(k.track, k.id, k.repeat): row for k, row in verdicts.items()}
        _, data = open_again(folder, run.manifest)
        for asked in asked_in(folder, data):
            about = asked.track, asked.about.benchmark_id, asked.about.repeat
            rows += _examples_of(asked, rows_by_answer.get(about) or {})
    if not rows:
        raise UsageError(f"{runs[0]}: no verdicts on memories; name runs of extraction or update")
    values, named, same, sessions = zip(*rows, strict=True)
    return Examples(np.stack(values), np.array(named), np.array(same), sessions, judges)


def _examples_of(asked: JudgeCall, verdict: Row) -> Iterator[tuple[Floats, bool, bool, str]]:
    question = asked.question
    # A judge that failed named no pair either: its silence would be learnt as «unrelated».
    if not isinstance(question, MatchQuestion) or verdict.get("outcome") != "ok":
        return
    said = {(pair["gold"], pair["predicted"]): pair["relation"] for pair in verdict["pairs"]}
    for gold, of_gold in zip(question.gold, features_of(question), strict=True):
        for predicted, values in zip(question.predicted, of_gold, strict=True):
            relation = said.get((gold.id, predicted.id))
            yield values, relation is not None, relation in POLICIES["lenient"], asked.cluster


def _check(examples: Examples) -> None:
    """Refuse what no regression can learn from, on all sessions or without those held out."""
    kinds = {
        "matches": examples.same,
        "pairs that the judge named and did not match": examples.named & ~examples.same,
        "pairs that the judge did not name": ~examples.named,
    }
    for what, chosen in kinds.items():
        sessions = {examples.sessions[place] for place in np.flatnonzero(chosen).tolist()}
        if chosen.sum() < LEAST or len(sessions) < FOLDS:
            raise UsageError(
                f"fit=yes: only {chosen.sum()} {what}, in {counted(len(sessions), 'session')}; "
                f"at least {LEAST} in {FOLDS} sessions are needed: add runs"
            )


def _line(values: Floats, truth: Flags, names: Sequence[str]) -> LogisticLine:
    from sklearn.linear_model import LogisticRegression

    mean, spread = values.mean(axis=0), values.std(axis=0)
    # A feature that is the same everywhere tells nothing, and is not divided by 0.
    spread[spread == 0] = 1.0
    # Balanced: nearly all pairs are unrelated, and a plain fit would name none.
    model = LogisticRegression(C=PENALTY, class_weight="balanced", max_iter=2000)
    model.fit((values - mean) / spread, truth)
    weights = model.coef_[0] / spread
    bias = float(model.intercept_[0] - weights @ mean)
    return LogisticLine(bias=bias, weights=dict(zip(names, weights.tolist(), strict=True)))


def _lines(examples: Examples, train: Flags) -> tuple[LogisticLine, LogisticLine]:
    named = train & examples.named
    related = _line(examples.values[train], examples.named[train], AMONG_OTHERS)
    pairs = examples.values[named][:, : len(OF_A_PAIR)]
    return related, _line(pairs, examples.same[named], OF_A_PAIR)


def cross_validated(examples: Examples, seed: int) -> dict[str, dict[str, Estimate]]:
    """Measure kappa on held-out sessions, next to that of `lexical` on the same pairs."""
    from sklearn.model_selection import StratifiedGroupKFold

    decided = np.zeros((REPEATS, len(examples.same)), dtype=np.bool_)
    strata = examples.named.astype(int) + examples.same
    for repeat in range(REPEATS):
        folds = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=seed + repeat)
        for train, held_out in folds.split(examples.values, strata, examples.sessions):
            related, same = _lines(examples, np.isin(np.arange(len(strata)), train))
            values = examples.values[held_out]
            matches = same.logits(values[:, : len(OF_A_PAIR)]) >= 0
            decided[repeat, held_out] = (related.logits(values) >= 0) & matches
    kappas = {}
    for where, kept in (("named", examples.named), ("all", np.ones_like(examples.named))):
        lexical = examples.lexical[None]
        kappas[where] = {
            "fitted": _kappa(decided, examples, kept),
            "lexical": _kappa(lexical, examples, kept),
            "difference": _difference(decided, examples, kept),
        }
    return kappas


def _kappa(decided: Flags, examples: Examples, kept: Flags) -> Estimate:
    """Estimate kappa with the verdicts, over the mean table of the rows of `decided`."""
    table = _table(decided, examples, kept)
    return clustered_statistics(table, _sessions(examples, kept), [_of_table])[0]


def _difference(decided: Flags, examples: Examples, kept: Flags) -> Estimate:
    """Estimate the kappa of the fitted judge less that of `lexical`, paired by session."""
    tables = [_table(rows, examples, kept) for rows in (decided, examples.lexical[None])]

    def apart(sums: Floats) -> Floats:
        fitted, lexical = np.split(sums, 2, axis=-1)
        return np.asarray(_of_table(fitted) - _of_table(lexical))

    # One table, so that both judges are resampled with the same sessions.
    joined = np.concatenate(tables, axis=1)
    return clustered_statistics(joined, _sessions(examples, kept), [apart])[0]


def _table(decided: Flags, examples: Examples, kept: Flags) -> Floats:
    truth = examples.same[kept].tolist()
    # Averaged, not stacked: five predictions of one pair are no five pairs.
    tables = [pair_features(truth, row[kept].tolist(), _YES_OR_NO) for row in decided]
    return np.asarray(np.mean(tables, axis=0))


def _sessions(examples: Examples, kept: Flags) -> list[str]:
    return [examples.sessions[place] for place in np.flatnonzero(kept).tolist()]


def _of_table(sums: Floats) -> Floats:
    unweighted = disagreement(_YES_OR_NO, "unweighted")
    kappa = on_table(lambda counts: kappa_of(counts, unweighted), len(_YES_OR_NO.values) ** 2)
    return kappa(sums)


def _fitted(examples: Examples, kappas: dict[str, dict[str, Estimate]]) -> Fitted:
    # The file learns from all pairs; its agreement is that of the fits which left sessions out.
    related, same = _lines(examples, np.ones_like(examples.named))
    named, every = kappas["named"]["fitted"], kappas["all"]["fitted"]
    fitted_on: dict[str, Any] = {
        "judges": list(dict.fromkeys(examples.judges)),
        "pairs": len(examples.same),
        "named": int(examples.named.sum()),
        "matches": int(examples.same.sum()),
        "sessions": len(set(examples.sessions)),
    }
    agreement = (
        f"kappa {two_decimals(every)} with {', '.join(fitted_on['judges'])} on {every.n} pairs of "
        f"unseen sessions; {two_decimals(named)} on {named.n} pairs that a judge named and whose "
        "texts differ"
    )
    return Fitted(related=related, same=same, fitted_on=fitted_on, agreement=agreement)


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RunFolderError(f"out={file}: can't be written ({error.strerror})") from error


def print_fit(fit: Fit, console: "Console") -> None:
    """Print the kappas of a fitted judge and of `lexical` on the same held-out pairs."""
    from alps.show.table import Table, named, printed, row_of, thousands

    about = fit.fitted.fitted_on
    console.print(
        f"Fitted to {about['pairs']:,} pairs from {about['sessions']:,} sessions; "
        f"{', '.join(about['judges'])} named {about['named']:,} of the pairs"
    )
    columns = list(map(named, ("pairs", "n", "fitted", "lexical", "fitted – lexical")))
    rows = []
    for where, found in fit.kappas.items():
        rows.append(row_of(where, thousands(found["fitted"].n), *map(two_decimals, found.values())))
    title = "Kappa on held-out sessions, without pairs of identical texts"
    console.print(*printed([Table(title, columns, rows, layout="plain")]))
    console.print(f"Next: alps run … judge={FITTED}{fit.file} audit_judge=… audit=10%")
