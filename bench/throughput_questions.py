"""Write the questions that alps asks about the samples in DATA, of the model and of the judge.

    python bench/throughput_questions.py DATA FILE

One a line, as Inspect AI reads them: bench/throughput.py lets it ask the same.
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scripted import content

AT_ONCE = 64
MODEL, JUDGE = "openai/scripted", "openai/scripted-judge"
INSPECT_ASKS = """
import sys
from inspect_ai import Task, eval
from inspect_ai.dataset import json_dataset
from inspect_ai.model import GenerateConfig, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate

task = Task(dataset=json_dataset(sys.argv[1]), solver=generate(), scorer=includes())
asked = {"base_url": sys.argv[2], "api_key": "not-needed"}
model = get_model("openai-api/loopback/scripted", **askedCONFIG)
(log,) = eval(task, model=model, log_dir="inspect-log", display="none"MORE)
sys.exit(log.status != "success")
"""


def questions(data: str) -> Iterator[dict[str, Any]]:
    """Yield each question: its `id`, its `model` and its `input`, which are the messages."""
    from alps.data.release import open_split, read_samples
    from alps.judges.base import MatchQuestion
    from alps.judges.llm import LlmJudge
    from alps.judges.matching import gold_items, predicted_items
    from alps.llm.types import Recorder
    from alps.schema import read_memories
    from alps.tasks import load_tracks

    (task,) = load_tracks("extraction")
    judge: Any = LlmJudge(JUDGE, client=None)  # type: ignore[arg-type]  # nobody is asked here
    for sample in read_samples(open_split(data, None).track(task.track), task.read_sample):
        asked = [dict(message) for message in task.messages(sample)]
        yield {"id": f"{sample.benchmark_id}-asked", "model": MODEL, "input": asked}
        answered = read_memories(json.loads(content({"model": MODEL, "messages": asked}))).memories
        recorder = Recorder()
        question = MatchQuestion(gold_items(sample.gold), predicted_items(answered))
        asyncio.run(judge.on(recorder).answer(question, about=""))
        (request,) = recorder.requests
        judged = [dict(message) for message in request.messages]
        yield {"id": f"{sample.benchmark_id}-judged", "model": JUDGE, "input": judged}


if __name__ == "__main__":
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in questions(sys.argv[1]))
    Path(sys.argv[2]).write_text("".join(lines), encoding="utf-8")
