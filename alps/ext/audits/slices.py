"""Corrected scores of slices of a track, and causes of the cheap judge's bias.

Slices and covariates are of what anybody can read: how long what is asked and the answer are, and
in which script. What the bias goes along with is found by a linear regression.
"""

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alps.ext.audits.draws import LEAST
from alps.ext.audits.records import AuditedRecords, Pairs, corrected_score
from alps.rows import AuditedScore, BentRow
from alps.run.opened import AnswerKey, read_rows
from alps.run.source import TrackData
from alps.stats.bootstrap import Floats, cluster_sums
from alps.stats.bounded import LEVEL, student_quantile
from alps.stats.paired import holm
from alps.tasks import Metric
from alps.text import LENGTHS, length_thirds, script_of, texts_of

LENGTH, SCRIPT, LANGUAGE = "input length", "script", "language"

_SINGULAR = 1e-9


@dataclass(frozen=True)
class Traits:
    """What the answers of a track are like, in columns, in the order of their keys.

    Attributes:
        asked: Characters of what is asked.
        answered: Characters of the answer.
        scripts: In which most of what is asked is written.
        languages: As the data say; empty where they do not.
    """

    asked: Floats
    answered: Floats
    scripts: Sequence[str]
    languages: Sequence[str] = ()

    def groups(self) -> dict[str, NDArray[Any]]:
        """Return in which slice each answer is: by thirds of length, script and language."""
        groups = {
            LENGTH: np.array(length_thirds(self.asked), dtype=object),
            SCRIPT: np.array(self.scripts, dtype=object),
        }
        if any(self.languages):
            groups[LANGUAGE] = np.array([one or "?" for one in self.languages], dtype=object)
        return groups


def traits_of(run: Path, track: TrackData, keys: Sequence[AnswerKey]) -> Traits:
    """Return the traits of the answers under `keys`.

    Raises:
        DataError: If the data can't be read.
    """
    asked: dict[str, tuple[int, str, str]] = {}
    wanted = {key.id for key in keys}
    for sample in track.samples():
        if sample.benchmark_id in wanted:
            text = texts_of(track.task.input_row(sample).get("input"))
            language = str(getattr(sample.gold, "language", None) or "")
            asked[sample.benchmark_id] = len(text), script_of(text), language
    lengths = _answer_lengths(run, track)
    return Traits(
        np.array([asked[key.id][0] for key in keys], dtype=np.float64),
        np.array([lengths.get(key, 0) for key in keys], dtype=np.float64),
        [asked[key.id][1] for key in keys],
        [asked[key.id][2] for key in keys],
    )


def _answer_lengths(run: Path, track: TrackData) -> dict[AnswerKey, int]:
    lengths = {}
    for key, row in read_rows(run / "predictions.jsonl").items():
        if key.track == track.task.track and isinstance(row.get("prediction"), dict):
            lengths[key] = sum(map(len, track.task.public.texts(row["prediction"])))
    return lengths


def corrected_slices(
    records: AuditedRecords, traits: Traits, metric: Metric
) -> dict[str, dict[str, AuditedScore]]:
    """Return the corrected metric by thirds of length, by script, and by language if that is known.

    A slice with too few records or audits has no value, and says how many are needed.
    """
    pairs = records.of(metric)
    defined = ~np.isnan(records.cheap[metric.name])
    slices: dict[str, dict[str, AuditedScore]] = {}
    for title, groups in traits.groups().items():
        own = groups[defined]
        if len(names := slice_names(title, own)) > 1:
            slices[title] = {name: _corrected(pairs.where(own == name)) for name in names}
    return slices


def _corrected(pairs: Pairs) -> AuditedScore:
    score, records = corrected_score(pairs), len(set(pairs.records))
    if score.value is None and records < LEAST:
        # No further audit would help.
        of = f"{records} record{'' if records == 1 else 's'}"
        score = score.model_copy(update={"reason": f"{of}, and at least {LEAST} are needed"})
    return score


def slice_names(title: str, groups: NDArray[Any]) -> list[str]:
    """Return the slices that answers are in: lengths in their order, others by their size."""
    if title == LENGTH:
        return [name for name in LENGTHS if name in groups]
    return _largest(groups)


def _largest(names: NDArray[Any]) -> list[str]:
    return [name for name, _ in Counter(names.tolist()).most_common()]


@dataclass(frozen=True)
class Errors:
    """Audit less cheap score of the audited answers of one run, with what may go along.

    `own_family` is whether the cheap judge is a model of the system's family.
    """

    values: Floats
    covariates: Mapping[str, Floats]
    sessions: Sequence[str]
    own_family: bool = False


def errors_of(
    records: AuditedRecords, traits: Traits, metric: Metric, *, own_family: bool = False
) -> Errors:
    """Return the errors of the cheap judge on the audited answers of a run."""
    known = ~np.isnan(records.audit[metric.name]) & ~np.isnan(records.cheap[metric.name])
    values = (records.audit[metric.name] - records.cheap[metric.name])[known]
    usual = _largest(np.array(traits.scripts, dtype=object))[:1]
    other = np.array([float(script not in usual) for script in traits.scripts])
    covariates = {
        # Logarithms: one dialogue of 272,000 characters would decide the whole slope.
        LENGTH: np.log1p(traits.asked)[known],
        "answer length": np.log1p(traits.answered)[known],
        f"not {usual[0] if usual else '?'} script": other[known],
        "position in the data": np.arange(len(records.keys), dtype=np.float64)[known],
    }
    sessions = [one for one, kept in zip(records.sessions, known, strict=True) if kept]
    return Errors(values, covariates, sessions, own_family)


def bent_by(runs: Sequence[Errors]) -> list[BentRow]:
    """Return the traits that correlate with a cheap judge's errors on audited answers.

    Of several runs also whether the judge is of the system's own family, where only some are.
    """
    values = np.concatenate([run.values for run in runs])
    covariates = {}
    for name in runs[0].covariates:
        covariates[name] = np.concatenate([run.covariates[name] for run in runs])
    own = [np.full(len(run.values), float(run.own_family)) for run in runs]
    covariates["own family"] = np.concatenate(own)
    sessions = [session for run in runs for session in run.sessions]
    return clustered_effects(values, covariates, sessions)


def family_of(model: str) -> str:
    """Return the family of a model: `gpt` of `openai/gpt-4.1-mini`; empty for what is no LLM."""
    provider, slash, name = model.rpartition("/")
    found = re.match(r"[^\W\d_]+", name) if slash and ":" not in provider else None
    return found[0].casefold() if found is not None else ""


def clustered_effects(
    values: Floats, covariates: Mapping[str, Floats], clusters: Sequence[Hashable]
) -> list[BentRow]:
    """Regress values on covariates by least squares, with errors between clusters.

    p is that of a t test between clusters, and Holm's method corrects over all covariates.
    Covariates that don't vary, or follow from others, are left out. Empty where fewer clusters than
    twice the number of coefficients are there: their errors would be far too small.

    Source: Liang and Zeger, Biometrika 73 (1986) 13; the correction for few clusters (CR1) as in
        Cameron and Miller, Journal of Human Resources 50 (2015) 317, §II.B.

    Args:
        values: Shape (records,), finite.
        covariates: By name, each of shape (records,), finite.
        clusters: What each record belongs to.
    """
    from scipy.special import stdtr

    design, names = _design(covariates, len(values))
    units, (n, width) = len(set(clusters)), design.shape
    if not names or units < 2 * width:
        return []
    bread = np.linalg.inv(design.T @ design)
    slopes = bread @ design.T @ values
    left = values - design @ slopes
    meat = cluster_sums(design * left[:, None], clusters)
    few = units / (units - 1) * (n - 1) / (n - width)
    errors = np.sqrt(few * np.diag(bread @ meat.T @ meat @ bread))[1:]
    wide = float(student_quantile(units - 1, (1 + LEVEL) / 2))
    own = slopes[1:]
    # A judge without any error has no spread, and p is 1.
    ratios = np.divide(np.abs(own), errors, out=np.zeros_like(own), where=errors > 0)
    ps = np.minimum(1.0, 2 * stdtr(units - 1, -ratios)).tolist()
    rows = []
    for name, slope, error, p, corrected in zip(names, own, errors, ps, holm(ps), strict=True):
        ends = {"low": float(slope - wide * error), "high": float(slope + wide * error)}
        rows.append(BentRow(by=name, value=float(slope), **ends, p=p, p_holm=corrected))
    return rows


def _design(covariates: Mapping[str, Floats], n: int) -> tuple[Floats, list[str]]:
    """Return a column of ones and the covariates that add something, in standard deviations."""
    columns, names = [np.ones(n)], []
    for name, covariate in covariates.items():
        spread = float(covariate.std())
        if spread <= _SINGULAR:
            continue
        scaled = (covariate - covariate.mean()) / spread
        basis = np.stack(columns, axis=1)
        left = scaled - basis @ np.linalg.lstsq(basis, scaled, rcond=None)[0]
        # What follows from other columns leaves a matrix that can't be inverted.
        if float(np.abs(left).max()) > _SINGULAR:
            columns.append(scaled)
            names.append(name)
    return np.stack(columns, axis=1), names
