"""The description of a task: plain functions over its own samples, predictions and verdicts.

Whatever a room outside needs to know of a task stands in a field here, so that a new task is a
module of its own and its name in the registry's list.
"""

import json
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel

from alps.data.hub import RELEASE
from alps.judges.base import Judge, fingerprint_id
from alps.judges.rubric import SUPPORT, Rubric
from alps.llm.replies import schema_of
from alps.llm.types import AnswerType, Read
from alps.prompts import Prompt, asked_sha256
from alps.schema import Prediction
from alps.tasks.by_memory import FULL, LAST, NOTHING, ORACLE, PLACEBO, MemoryProbes, Recall, Script
from alps.tasks.metrics import Breakdown, Metric, headline_of, only_rated
from alps.tasks.record_parts import OF_ANY_TASK, AnsweredRecord, Highlight, RecordPart, no_parts

if TYPE_CHECKING:
    from alps.data.audit_findings import AuditReport

Row = Mapping[str, Any]


class SampleLike(Protocol):
    """What the engine needs to know of any sample."""

    @property
    def benchmark_id(self) -> str:
        """The id that input, gold and prediction share."""
        ...

    @property
    def session_id(self) -> str:
        """The session it comes from; intervals are clustered by it."""
        ...


@dataclass(frozen=True)
class JudgingOptions:
    """What is asked beyond the score; `extras`: does the dialogue support what matched no gold?"""

    extras: bool = False


JUST_THE_SCORE = JudgingOptions()


@dataclass(frozen=True)
class TaskOptions:
    """What a run chooses among the tracks of its tasks, and how they are asked and scored.

    Attributes:
        distractors: A pool size of retrieval, or `all`.
        ability: An ability of utilization, or `all`.
        scoring: `alps`, or `authors-v1` for comparison with published figures.
        prompt: What extraction asks a model for: `precision`, or `recall`.
        size: Which set of PersonaMem: `32k`, `128k` or `1M`; None for the only one there is.
        answer: How PersonaMem asks: for a `choice` among the options, for the log-probability of
            each (`logprob`), or for an answer in plain text, without options (`free`).
        orders: In how many orders PersonaMem shows the options of a question: 1, 4 or 24.
        parser: Whose reading of replies PersonaMem takes: `alps`, `authors` or `authors-older`.
        seed: Of random draws.
        memory: Who chooses what of a history is shown: `full` for all of it, or the name of one.
        max_context_tokens: The most tokens that are shown of it; None for any number.
        k: How many turns or memories a memory is asked for.
        persona: Whether the system turns that describe a user are `shown` or `hidden`.
        added: The values of keys that extensions bring with their tasks, by name.
    """

    distractors: str = "100"
    ability: str = "all"
    scoring: str = "alps"
    prompt: str = "precision"
    size: str | None = None
    memory: str = "full"
    answer: str = "choice"
    orders: int = 1
    parser: str = "alps"
    seed: int = 0
    max_context_tokens: int | None = None
    k: int = 5
    persona: str = "shown"
    added: tuple[tuple[str, Any], ...] = ()


DEFAULTS = TaskOptions()
OF_MEMORY = ("memory", "max_context_tokens", "k")
"""The settings of a task whose samples have a history."""


def keeps_memories(memory: str) -> bool:
    """Tell whether `memory=` names a system, and no choice among the turns of a history."""
    return memory not in (FULL, NOTHING, ORACLE, PLACEBO) and not memory.startswith(LAST)


def memory_conditions(options: TaskOptions) -> dict[str, Any]:
    """Return what of a history is shown, as far as it is not all of it."""
    chosen = {name: getattr(options, name) for name in OF_MEMORY}
    return {name: value for name, value in chosen.items() if value != getattr(DEFAULTS, name)}


AGREEMENT = Metric("judge_agreement", "self-agreement of the judge", optional=True)


def agreement_score(verdict: Row | None) -> dict[str, float]:
    """Return how far the judge of a verdict agrees with itself; nothing where it was asked once."""
    agreement = (verdict or {}).get("agreement")
    return {} if agreement is None else {AGREEMENT.name: agreement}


def verdict_row(judge: Judge, rubrics: Sequence[Rubric]) -> dict[str, Any]:
    """Return the row of a verdict under `rubrics` in which nothing failed."""
    fingerprint = fingerprint_id(judge.fingerprint_for(rubrics))
    return {"outcome": "ok", "judge": fingerprint, "error": None}


def chat_messages(instructions: str, shown: Row) -> tuple[Mapping[str, str], ...]:
    """Return the messages to an LLM: the instructions, then the input as JSON."""
    # What all requests share is ahead of the rest, so that providers can cache it.
    user = json.dumps(shown, ensure_ascii=False)
    return {"role": "system", "content": instructions}, {"role": "user", "content": user}


def without_gold(sample: Any) -> Any:
    """Return a sample as a system may see it: without what it is to find."""
    if is_dataclass(sample) and not isinstance(sample, type):
        return replace(sample, gold=None)
    return sample.model_copy(update={"gold": None})


def anything_fits(sample: Any, prediction: Row) -> None:
    """Accept any prediction: what most tasks make of the check against the sample."""


def no_groups(sample: Any) -> Mapping[str, str]:
    """Return no groups: what a task without breakdowns makes of a sample."""
    return {}


async def no_judgement(
    sample: Any, prediction: Prediction, judge: Judge, options: JudgingOptions
) -> dict[str, Any]:
    """Return the verdict of a task whose scores need no judge: nothing is asked."""
    return verdict_row(judge, ())


@dataclass(frozen=True)
class Scored:
    """The score of one record.

    Attributes:
        scores: By metric; a metric that is not defined for the record is absent.
        counts: What micro metrics sum up.
        details: Matched, missed and extra items, to be shown with the record; the detail with
            the name of a breakdown is the group of the answer in it.
        question: What is the same for duplicates of a question, for a task whose data have any.
    """

    scores: Mapping[str, float]
    counts: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    question: Hashable = None


@dataclass(frozen=True)
class Records:
    """The records of a task that has files of its own.

    Attributes:
        samples: Streams them.
        sha256: The hash of the files.
        described: What the manifest says of them, beyond hash and number.
        conditions: Settings that they decide where the user left them open; the manifest has them,
            too, and the track is run under them.
    """

    samples: Callable[[], Iterator[Any]]
    sha256: str
    described: Mapping[str, Any] = field(default_factory=dict)
    conditions: Mapping[str, Any] = field(default_factory=dict)


Answer = Callable[[Any], dict[str, Any]]
"""A system without a model: from a sample to the prediction."""


@dataclass(frozen=True)
class Overlap:
    """One answer and its gold, as they are compared to see whether the gold was copied.

    Attributes:
        golds: The texts that were to be found.
        values: The texts that were answered.
        known: Everything that the system was shown.
        given: Texts that it was given to hand back, which are no find.
    """

    golds: Sequence[str]
    values: Sequence[str]
    known: Sequence[str]
    given: Sequence[str] = ()


def all_texts(answer: Row) -> Sequence[str]:
    """Return the texts of an answer, wherever they are in it."""
    texts: list[str] = []
    waiting: list[Any] = [answer]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, str):
            texts.append(node)
        elif isinstance(node, Mapping):
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    return texts


def gold_as_text(sample: Any) -> Sequence[tuple[str, str, str]]:
    """Return the gold of a sample as one line."""
    return (("gold", str(sample.gold), ""),)


def texts_of(task: "Task", answer: Any) -> Sequence[str]:
    """Return what a system wrote, without ids; of an answer in another form all texts in it."""
    try:
        return task.public.texts(answer)
    except (TypeError, AttributeError, LookupError):
        return all_texts(answer)


@dataclass(frozen=True)
class PublicAnswers:
    """How the answers of a submission are looked at before a person believes them.

    Attributes:
        longest: Characters of one answer, all its texts together, that no model comes near.
        texts: What the system wrote, without ids: submissions that share it copied each other, and
            answers that are all the same look at no sample.
        choice: The id that an answer chooses, and its ranking, best first, of a task whose samples
            have as `gold` the right id; None where answers are texts.
        overlap: What of an answer is compared with its gold; None where nothing can be.
        gold: What was expected, of a sample with gold: a mark, the words and a remark, a line each.
        schema: What a prediction is in files, which submitted answers are held to; the schema of
            the answer where left out.
        paired: How many gold and how many predicted memories the pairs of a verdict may name, for a
            task whose verdicts must have pairs; None for others.
        unit: How the compared values are counted, as in `9 of 10 predicted values are the gold`.
        is_mark: Tells whether a verdict may give a mark of that name and value, for a task whose
            rubrics are its own; None where they are those of `alps.judges`.
    """

    # The longest of 4,578 answers of real models has 16,401 as JSON (update; extraction 16,062). A
    # bound that followed the usual length let everything pass where all answers were endless.
    longest: int = 30_000
    texts: Callable[[Row], Sequence[str]] = all_texts
    choice: Callable[[Row], tuple[str, Sequence[str]]] | None = None
    overlap: Callable[[Any, Row], Overlap] | None = None
    gold: Callable[[Any], Sequence[tuple[str, str, str]]] = gold_as_text
    schema: type[BaseModel] | None = None
    paired: Callable[[Any, Prediction], tuple[int, int]] | None = None
    unit: str = "answers"
    is_mark: Callable[[str, int], bool] | None = None


@dataclass(frozen=True)
class Asking:
    """How a sample is asked where that is more than one message and one typed answer.

    Attributes:
        plain: Whether an LLM answers in plain text.
        prompts: Further prompts whose hashes are in the manifest.
        for_class: What a class of the user's is given; the sample without its gold where left out.
        variants: Every form in which a sample is asked, under its own id; None where it is asked as
            it stands.
        joined: What the answers to all variants of a sample, in their order, come to together.
        filled: Adds to parsed JSON what is known without it, for a task that does not ask for that.
        choices: The values that fields of an answer may have for a sample, by field.
        own_system: The class of the system that asks a litellm model where that is not done by the
            messages of the task: it takes what `alps.systems.base.LlmSystem` does but sampling and
            bounds, and its `check(model, api_base=, local=)` refuses one that can't be asked so.
    """

    plain: bool = False
    prompts: tuple[Prompt, ...] = ()
    for_class: Callable[[Any], Any] = without_gold
    variants: Callable[[Any], Sequence[Any]] | None = None
    joined: Callable[[Any, Sequence[Prediction]], Prediction] | None = None
    own_system: Any = None
    filled: Callable[[Any, object], object] | None = None
    choices: Callable[[Any], Mapping[str, Sequence[str]]] = lambda sample: {}


@dataclass(frozen=True)
class Shown:
    """What tables, pages and boards show of a task.

    Attributes:
        title: The name of the track as people read and type it; that of the task where left out.
        variant: What tells it from other tracks of its task in the address of a page, as `100`.
        breakdowns: Metrics of groups of records.
        record_parts: What is shown of one record; nothing but its prediction where left out.
        highlights: The groups of records that teach most about a run, in the order of the page;
            those of any task where left out.
    """

    title: str = ""
    variant: str = ""
    breakdowns: tuple[Breakdown, ...] = ()
    record_parts: Callable[[AnsweredRecord], Sequence[RecordPart]] = no_parts
    highlights: tuple[Highlight, ...] = OF_ANY_TASK


@dataclass(frozen=True)
class TaskData:
    """Where the records of a task are, if not in a folder of its track alone.

    Attributes:
        folder: The folder in the release layout; the track where left out.
        hub: The data set of the Hugging Face hub, OWNER/NAME, that `data=hub` means.
        pool_size: How many distractors a retrieval pool has; the pools are built where the data has
            none.
        described: What the manifest says of samples that the task makes itself.
        open_records: Finds its records at what `data=` says, for a task that has files of its own.
        read_results: Reads answers that others published as CSV: each with its line.
        check_results: Refuses such a file that does not belong to the samples, in a DataError;
            returns what a user should know of it, a line each.
        check_shown: Refuses a sample of which something that a system is shown is not there, in a
            DataError; asked of every sample before the first call of a run that shows them.
        audit: Audits what `data=` and `split=` say, for a task that has files of its own; returns
            None where they are no such files.
    """

    folder: str = ""
    hub: str = RELEASE
    pool_size: int | None = None
    described: Mapping[str, Any] = field(default_factory=dict)
    open_records: Callable[[str, TaskOptions], Records] | None = None
    read_results: Callable[[Path], Iterator[tuple[int, dict[str, Any]]]] | None = None
    check_results: Callable[[Path, Iterable[Any]], Sequence[str]] | None = None
    check_shown: Callable[[Any], None] | None = None
    audit: "Callable[[str, str | None], AuditReport | None] | None" = None


@dataclass(frozen=True)
class ByMemory:
    """How a memory system takes part in a task; in none where all is left out.

    Attributes:
        recall: How a reader is asked through a memory; None where samples have no history.
        answers: How a memory system answers in place of the system, where the answer is the memory
            itself and `memory=` names one.
        required: Whether memory systems alone can answer: a run without one refuses the task, and
            `task=all` leaves it out.
    """

    recall: Recall | None = None
    answers: MemoryProbes | Script | None = None
    required: bool = False


PARTS_OF_TASK = {
    "form": "public=PublicAnswers(schema=…)",
    "paired": "public=PublicAnswers(paired=…)",
    "recall": "by_memory=ByMemory(recall=…)",
    "needs_memory": "by_memory=ByMemory(required=…)",
    **{part.name: f"asking=Asking({part.name}=…)" for part in fields(Asking)},
    **{part.name: f"shown=Shown({part.name}=…)" for part in fields(Shown)},
    **{part.name: f"data=TaskData({part.name}=…)" for part in fields(TaskData)},
}
"""How what `Task` took as a keyword of its own before is written now."""


@dataclass(frozen=True)
class Task:
    """One task on one track: what is asked, how the answer is read, judged and scored.

    Attributes:
        name: The task; several tracks may belong to it.
        track: The track as it stands in files and tables; its folder is the same, unless
            `data.folder` says otherwise.
        prompt: What an LLM is sent; its hash is in the manifest.
        answer: The typed answer of a system.
        read_sample: Builds a sample, or a list of samples, from an input row and a gold row; the
            latter may be None.
        messages: Renders what an LLM is asked.
        input_row: The row that an external program is given: what a system may see, and nothing
            else.
        to_prediction: Turns the typed answer into the release's form of a prediction.
        score: Scores one prediction by its verdict; failed predictions come with a verdict of None.
        metrics: What is reported, in this order.
        has_gold: Whether the sample can be scored; that it has a `gold` where left out.
        judge: Asks the judge about one prediction; returns the verdict row without ids. Left out
            where nothing is to be judged.
        rubrics: The judge's instructions that its scores depend on.
        likely: The likeliest prediction for a sample with gold, before there is one: a dry run
            counts the calls that judging it takes, and without it none.
        fits: Raises a ValueError where a prediction can't be one for this very sample.
        groups: The group of a sample in each breakdown that does not hang on the answer, by the
            name of the breakdown.
        systems: Answers without a model, by the name that `model=` gives them: a function, or
            `module:name` of one in `alps.systems`, imported when it is asked. Those called
            `floor/…` stand beside every score.
        options: The settings of a run that mean something to it, beyond those of every task.
        selects: The settings that choose this track among those of its task.
        conditions: What the track is run under beyond its name, printed and written with its
            scores.
        asking: How it is asked where that is more than one message and one typed answer.
        shown: What tables, pages and boards show of it.
        public: How submitted answers are looked at.
        data: Where its records are, if not in a folder of its track alone.
        by_memory: How a memory system takes part.
    """

    name: str
    track: str
    prompt: Prompt
    answer: AnswerType[Any]
    read_sample: Callable[[Row, Row | None], Any]
    messages: Callable[[Any], tuple[Mapping[str, str], ...]]
    input_row: Callable[[Any], dict[str, Any]]
    to_prediction: Callable[[Any], dict[str, Any]]
    score: Callable[[Any, Prediction, Row | None, Judge], Scored]
    metrics: tuple[Metric, ...]
    has_gold: Callable[[Any], bool] = lambda sample: sample.gold is not None
    judge: Callable[[Any, Prediction, Judge, JudgingOptions], Awaitable[dict[str, Any]]] = (
        no_judgement
    )
    rubrics: tuple[Rubric, ...] = ()
    likely: Callable[[Any], dict[str, Any]] | None = None
    fits: Callable[[Any, Row], None] = anything_fits
    groups: Callable[[Any], Mapping[str, str]] = no_groups
    systems: Mapping[str, Answer | str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    selects: Mapping[str, str] = field(default_factory=dict)
    conditions: Mapping[str, Any] = field(default_factory=dict)
    asking: Asking = Asking()
    shown: Shown = Shown()
    public: PublicAnswers = PublicAnswers()
    data: TaskData = TaskData()
    by_memory: ByMemory = ByMemory()

    def under(self, conditions: Mapping[str, Any]) -> "Task":
        """Return the track under further conditions, which its data decide."""
        return replace(self, conditions={**self.conditions, **conditions})

    @property
    def place(self) -> str:
        """The folder of its track in the release layout."""
        return self.data.folder or self.track

    @property
    def title(self) -> str:
        """The name of the track as people read and type it: `extraction`, `retrieval@100`."""
        return self.shown.title or self.name

    @property
    def heading(self) -> str:
        """Its title as the beginning of a line or page."""
        return f"{self.title[0].upper()}{self.title[1:]}"

    @property
    def page(self) -> str:
        """The name of the track's page, without the suffix."""
        variant = self.shown.variant
        return f"{self.name}-{variant}" if variant else self.name

    @property
    def judged(self) -> bool:
        """Whether the headline metric depends on a judge."""
        return self.headline.judged

    @property
    def unjudged(self) -> frozenset[str]:
        """The names of the metrics that no judge has a part in."""
        return frozenset(metric.name for metric in self.metrics if not metric.judged)

    @property
    def stored(self) -> type[BaseModel]:
        """What a prediction is in files."""
        return self.public.schema or self.answer.schema

    @property
    def only_rated(self) -> bool:
        """Whether it has no figure but those of a judge that rates answers by a rubric."""
        return only_rated(self.metrics)

    @property
    def headline(self) -> Metric:
        """The headline metric of the task."""
        return headline_of(self.metrics)

    def rubrics_behind(self, metric: Metric) -> list[str]:
        """Return the names of the rubrics that a metric depends on."""
        if metric.needs.support:
            return [SUPPORT]
        labelled = set(metric.rubrics)
        named = [one.name for one in self.rubrics if one.labels.keys() & labelled]
        return named or [one.name for one in self.rubrics]

    @property
    def prompt_sha256(self) -> str:
        """The sha256 of its prompt and of the schema that an LLM's answer is held to."""
        # The schema is sent with the request: another one asks for other answers.
        return asked_sha256(
            self.prompt,
            None if self.asking.plain else schema_of(self.answer.schema, lengths=True),
        )

    def answered_by(
        self, answers: MemoryProbes | Script, options: TaskOptions, *settings: str
    ) -> "Task":
        """Return the track as the memory system of `options` answers it; itself without one.

        Args:
            answers: How it does.
            options: What the run chooses.
            settings: Those of `OF_MEMORY` that mean something to it then.
        """
        if not keeps_memories(options.memory):
            return self
        chosen = {}
        for name, value in memory_conditions(options).items():
            if name in settings:
                chosen[name] = value
        taken = tuple(dict.fromkeys((*self.options, *settings)))
        by_memory = replace(self.by_memory, answers=answers)
        asked = replace(self, by_memory=by_memory, options=taken)
        return asked.under(chosen)

    def groups_of(self, sample: Any, score: Row) -> dict[str, str]:
        """Return the group in each breakdown of an answer, by the row or details of its score."""
        groups: dict[str, str] = {}
        known = self.groups(sample) if self.shown.breakdowns else {}
        for breakdown in self.shown.breakdowns:
            group = known.get(breakdown.name, score.get(breakdown.name))
            if group is not None:
                groups[breakdown.name] = group
        return groups

    def answer_to(self, sample: Any) -> AnswerType[Any] | None:
        """Return what an LLM is held to for `sample`; None for plain text."""
        if self.asking.plain:
            return None

        def read(node: object) -> Read[Any]:
            # Checked while a reply is read: what does not fit the sample is invalid, and no answer.
            filled = self.asking.filled
            found = self.answer.read(node if filled is None else filled(sample, node))
            self.fits(sample, self.to_prediction(found.value))
            return found

        if self.fits is anything_fits:
            return self.answer
        return replace(self.answer, read=read, choices=self.asking.choices(sample))


def rubrics_of(tasks: Iterable[Task]) -> list[Rubric]:
    """Return the rubrics that the scores of tasks depend on, each once."""
    return list({rubric.id: rubric for task in tasks for rubric in task.rubrics}.values())
