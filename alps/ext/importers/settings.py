"""Settings of `alps import`."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from alps.keys import FrozenSettings, HomePath

FileFormat = Literal[
    "amb",
    "beam",
    "halumem",
    "inspect",
    "locomo",
    "longmemeval",
    "mem0",
    "omnimemeval",
    "personamem_v3",
    "rows",
]

FORMS: Mapping[FileFormat, str] = {
    "amb": "a run of the Agent Memory Benchmark, gzipped or not",
    "beam": "evaluation-NAME.json of one conversation of BEAM",
    "halumem": "…_eval_stat_result.json of HaluMem",
    "inspect": "a log of Inspect, .eval or .json",
    "locomo": "output of task_eval/evaluate_qa.py of LoCoMo",
    "longmemeval": "output of src/evaluation/evaluate_qa.py of LongMemEval, or its answers",
    "mem0": "output of evaluation/evals.py of Mem0, or its answers",
    "omnimemeval": "…_locomo_judged.json or …_lme_judged.json of OmniMemEval",
    "personamem_v3": "results.csv of PersonaMem v3",
    "rows": "JSON or JSON Lines of any project, with objects of a question and an answer",
}
"""What a file of each format is, as messages name it."""


class ImportSettings(FrozenSettings):
    """Settings of `alps import`."""

    out: HomePath = Field(description="folder to write")
    data: HomePath | None = Field(None, description="file of the questions (longmemeval)")
    verdict: str | None = Field(
        None,
        description="field with the verdicts; none: the file has none",
    )
    reported: str | None = Field(None, description="published accuracy to check: 74.3% or 0.743")
