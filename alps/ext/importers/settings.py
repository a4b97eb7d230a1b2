"""Settings of `alps import`."""

from collections.abc import Mapping

from pydantic import Field

from alps.keys import FrozenSettings, HomePath

FORMS: Mapping[str, str] = {
    "amb": "a run of the Agent Memory Benchmark, gzipped or not",
    "beam": "evaluation-NAME.json of one BEAM conversation",
    "halumem": "HaluMem's …_eval_stat_result.json",
    "inspect": "an Inspect log, .eval or .json",
    "locomo": "output of LoCoMo's task_eval/evaluate_qa.py",
    "longmemeval": "output of LongMemEval's src/evaluation/evaluate_qa.py, or unjudged answers",
    "mem0": "output of Mem0's evaluation/evals.py, or unjudged answers",
    "omnimemeval": "OmniMemEval's …_locomo_judged.json or …_lme_judged.json",
    "personamem_v3": "PersonaMem v3's results.csv",
    "rows": "JSON or JSON Lines from any project, with a question and an answer in each object",
}
"""What a file of each format is, as messages name it."""


class ImportSettings(FrozenSettings):
    """Settings of `alps import`."""

    out: HomePath = Field(description="folder to write")
    data: HomePath | None = Field(None, description="file with the questions (longmemeval)")
    verdict: str | None = Field(
        None,
        description="field with the verdicts; none: the file has none",
    )
    # mentedb published 95.2 % for a file whose rows give 92.0 %, and took it back.
    reported: str | None = Field(None, description="published accuracy to check: 74.3% or 0.743")
