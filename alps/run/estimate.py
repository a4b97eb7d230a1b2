"""Estimate of what a run would ask and cost, counted before anything is paid for."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from contextlib import closing as closed_after
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from alps.event_loop import run_loop
from alps.judges.admission import requests_of_check
from alps.judges.base import Judge
from alps.judges.embedded import EmbeddedJudge
from alps.llm.budget import answer_bound, prompt_bytes
from alps.llm.cache import cache_key
from alps.llm.ledger import Ledger
from alps.llm.prices import ReplyTokens, price_of
from alps.llm.structured import MODES
from alps.llm.types import Recorder, Request
from alps.run.course import judging_services, track_plans, wrapped
from alps.run.engine import TrackPlan, Unit, floor_answers, heard_prediction, is_judged, units
from alps.run.fresh import is_begun, refuse_another_run
from alps.run.opened import PREDICTIONS, AnswerKey, StoredRows, stored_rows
from alps.run.parts import parts_of
from alps.run.services import Services, open_services
from alps.run.session import effective_run, resolve
from alps.run.source import RunData
from alps.schema import Prediction
from alps.settings import RunSettings
from alps.systems.base import on_client
from alps.tasks import JudgingOptions
from alps.tasks.base import JUST_THE_SCORE, rubrics_of

VERDICTS = "verdicts.jsonl"
_BYTES_A_TOKEN = 4
# Tokens of a reply where nothing says how long it will be: a paragraph, and a reason with a verdict
_ANSWER, _VERDICT = 200, 120
Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Stage:
    """The calls of one stage, with the tokens and dollars they take at least (about) and at most.

    `most_tokens` and the costs are None where the length of the answers, or the price, is not
    known. `likely_cost` is that of replies of a typical length, `likely_tokens` are those of all
    prompts. `cached` counts the calls that the reply cache answers, which are not among `calls`.
    Of an `unknown` stage nobody can count the calls.
    """

    name: str
    model: str
    calls: int = 0
    exact: bool = True
    least_tokens: int = 0
    most_tokens: int | None = 0
    least_cost: float | None = 0.0
    most_cost: float | None = 0.0
    cached: int = 0
    likely_cost: float | None = 0.0
    likely_tokens: int = 0
    unknown: bool = False

    @property
    def unpriced(self) -> bool:
        """Whether any of its calls has no known price."""
        return self.calls > 0 and self.least_cost is None

    def with_call(self, request: Request[Any], *, certain: bool, reply: int = _VERDICT) -> "Stage":
        """Return the stage with one more call; an uncertain one may turn out not to be needed.

        `reply` is how many tokens a typical one has.
        """
        price, prompt = price_of(request.model), prompt_bytes(request, request.messages)
        answer = answer_bound(request, price)
        likely = prompt // _BYTES_A_TOKEN if certain else 0
        most = None if answer is None else prompt + answer
        most_cost = None if answer is None else price.cost(ReplyTokens(prompt, answer))
        usual = ReplyTokens(prompt // _BYTES_A_TOKEN, min(reply, answer or reply))
        return replace(
            self,
            calls=self.calls + 1,
            exact=self.exact and certain,
            least_tokens=self.least_tokens + likely,
            most_tokens=add_known(self.most_tokens, most),
            least_cost=add_known(self.least_cost, price.cost(ReplyTokens(likely, 0))),
            most_cost=add_known(self.most_cost, most_cost),
            likely_cost=add_known(self.likely_cost, price.cost(usual)),
            likely_tokens=self.likely_tokens + prompt // _BYTES_A_TOKEN,
        )


@dataclass(frozen=True)
class Round:
    """Tracks that a run asks at one size of the context, and what it holds of them already."""

    tracks: Sequence[TrackPlan]
    predictions: StoredRows
    verdicts: StoredRows

    def heard(self, unit: Unit) -> Prediction | None:
        """Return the answer that it holds."""
        return heard_prediction(self.predictions.get(_key_of(unit)), unit)

    def needs_verdict(self, unit: Unit, *, heard: bool) -> bool:
        """Tell whether a unit is to be judged; a verdict that it holds is of a `heard` answer."""
        if not unit.track.task.has_gold(unit.sample):
            return False
        verdict = self.verdicts.get(_key_of(unit)) if heard else None
        return verdict is None or not is_judged(verdict)


def dry_run(settings: RunSettings) -> list[Stage]:
    """Count the calls, tokens and dollars that a run would take; no request is made, and no folder.

    Raises:
        AlpsError: If the settings or the data can't be used.
    """
    session = resolve(settings, dry=True)
    if session.settings.fresh:
        session = replace(session, folder=session.folder / "fresh")  # where nothing is answered yet
    settings, data, folder = session.settings, session.data, session.folder
    if is_begun(folder):
        refuse_another_run(folder, effective_run(settings, data.tasks).recorded())
    stages = estimated(settings, data, folder, folder)
    for part in parts_of(settings, folder):
        stages += part.stages(session, estimated)
    return stages


def estimated(
    settings: RunSettings, data: RunData, answered: Path, judged: Path, *, generate: bool = True
) -> list[Stage]:
    """Count what is left to ask, where these folders hold predictions and verdicts already."""
    with TemporaryDirectory() as scratch, ExitStack() as opened:
        ledger = opened.enter_context(closed_after(Ledger(Path(scratch) / "calls.jsonl")))
        parts = parts_of(settings, answered)
        if generate:
            services = open_services(settings, data.tasks, ledger, None, parts=parts)
            services = wrapped(services, data, None)
        else:
            services = judging_services(settings, data.tasks, ledger, None)
        opened.callback(lambda: run_loop(services.aclose()))
        plans = track_plans(settings, data, services)
        rounds = [Round(plans, *_held(answered, judged, opened))]
        for part in parts:
            for inside, less in part.rounds(plans):
                if generate or (answered / inside / PREDICTIONS).exists():
                    held = _held(answered / inside, judged / inside, opened)
                    rounds.append(Round(tuple(less), *held))
        options = JudgingOptions(extras=settings.extras == "judge")
        rubrics = rubrics_of(data.tasks) if settings.judge_check else []
        checking = run_loop(requests_of_check(services.judge, rubrics, judged))
        return run_loop(estimate(rounds, services, options=options, checking=checking))


def _held(answered: Path, judged: Path, opened: ExitStack) -> tuple[StoredRows, StoredRows]:
    """Open the predictions and the verdicts that are there, until the end of `opened`."""
    # Read alone: a journal mends a torn line, which in a run that goes on is one being written.
    predictions = opened.enter_context(stored_rows(answered / PREDICTIONS))
    return predictions, opened.enter_context(stored_rows(judged / VERDICTS))


def _key_of(unit: Unit) -> AnswerKey:
    return AnswerKey(unit.track.task.track, unit.sample.benchmark_id, unit.repeat)


async def estimate(
    rounds: Sequence[Round],
    services: Services,
    *,
    options: JudgingOptions,
    checking: Sequence[Request[Any]] = (),
) -> list[Stage]:
    """Count the calls that neither a folder nor the cache answers; of identical ones the first.

    A prediction that does not exist yet is taken to need one call of the judge; it needs none if it
    is empty or says everything in the words of the gold, and more if it is very long. `checking`
    are the calls that check the judge.
    """
    generate = Stage("generate", rounds[0].tracks[0].systems[0].name)
    judge = Stage("judge", services.judge.name)
    baselines = Stage("baselines", services.judge.name)
    check = Stage("known items", services.judge.name)
    seen: set[str] = set()
    check = _with_new(check, checking, seen, services)
    for one in rounds:
        for unit in units(one.tracks):
            asked = await _baseline_requests(unit, services)
            baselines = _with_new(baselines, asked, seen, services)
            heard = one.heard(unit)
            prediction = heard
            if heard is None:
                prediction, calls = await _answered(unit)
                generate = replace(generate, unknown=generate.unknown or calls is None)
                reply = _reply_tokens(unit)
                generate = _with_new(generate, calls or (), seen, services, reply=reply)
            if one.needs_verdict(unit, heard=heard is not None):
                judge = await _with_verdict(
                    judge, unit, prediction, seen=seen, services=services, options=options
                )
    others = [stage for stage in (check, baselines) if stage.calls + stage.cached]
    return [generate, judge, *others]


async def _with_verdict(
    stage: Stage,
    unit: Unit,
    prediction: Prediction | None,
    *,
    seen: set[str],
    services: Services,
    options: JudgingOptions,
) -> Stage:
    """Count the calls that judge an answer, or the likeliest one where there is none yet."""
    likely = unit.track.task.likely
    if prediction is None and likely is not None:
        told = Prediction(prediction=likely(unit.sample), outcome="ok", **unit.row({}))
        for request in await _judging(unit, told, services.judge, options):
            stage = stage.with_call(request, certain=False)
    if prediction is None or prediction.outcome != "ok":
        return stage
    requests = await _judging(unit, prediction, services.judge, options)
    return _with_new(stage, requests, seen, services)


def _reply_tokens(unit: Unit) -> int:
    """Return how many tokens a typical answer has: as many as the likeliest, where one is known."""
    if unit.track.task.likely is None or not unit.track.task.has_gold(unit.sample):
        return _ANSWER
    likely = json.dumps(unit.track.task.likely(unit.sample), ensure_ascii=False)
    return max(1, len(likely.encode()) // _BYTES_A_TOKEN)


async def _judging(
    unit: Unit, prediction: Prediction, judge: Judge, options: JudgingOptions
) -> list[Request[Any]]:
    """Return the calls that judging a prediction takes; an embedded judge makes none."""
    recorder = Recorder()
    if not isinstance(judge, EmbeddedJudge):
        await unit.track.task.judge(unit.sample, prediction, judge.on(recorder), options)
    return recorder.requests


async def _baseline_requests(unit: Unit, services: Services) -> list[Request[Any]]:
    """Return the calls that judge the trivial baselines on a record that was drawn for it."""
    drawn = unit.repeat == 0 and unit.place in unit.track.floor_sample
    requests: list[Request[Any]] = []
    for _, answer in floor_answers(unit) if drawn and services.judge.comparable else ():
        if answer.outcome == "ok":
            requests += await _judging(unit, answer, services.judge, JUST_THE_SCORE)
    return requests


def _with_new(
    stage: Stage,
    requests: Sequence[Request[Any]],
    seen: set[str],
    services: Services,
    *,
    reply: int = _VERDICT,
) -> Stage:
    """Count requests, each unless one identical to it was counted already."""
    cache = services.cache
    for request in requests:
        key = cache_key(request)
        if key in seen:
            continue
        seen.add(key)
        if cache is not None and any(cache.get(kept) is not None for kept in _keys(request)):
            stage = replace(stage, cached=stage.cached + 1)
            continue
        stage = stage.with_call(request, certain=request.certain, reply=reply)
    return stage


def _keys(request: Request[Any]) -> Iterator[str]:
    """Yield the keys of a kept reply: one a mode, where the run would only find out which it is."""
    open_mode = request.answer is not None and request.structured is None
    modes = MODES if open_mode else (request.structured,)
    return (cache_key(replace(request, structured=mode)) for mode in modes)


async def _answered(unit: Unit) -> tuple[Prediction | None, list[Request[Any]] | None]:
    """Return the answer of a system that makes no calls, else its calls; None if nobody knows."""
    recorder = Recorder()
    system = on_client(unit.track.systems[unit.repeat], recorder)
    if system is None:
        return None, None
    prediction = await system.answer(unit.track.task, unit.sample)
    # None of a system's calls hangs on the answer to another.
    calls = [replace(request, certain=True) for request in recorder.requests]
    return (None if calls else prediction), calls


def add_known(one: Number | None, other: Number | None) -> Number | None:
    """Add two figures; None where one of them is not known."""
    return None if one is None or other is None else one + other
