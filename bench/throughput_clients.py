"""The plain clients beside which bench/throughput.py measures alps.

Each is the whole work of a process.

    python bench/throughput_clients.py prepare DATA FILE
    python bench/throughput_clients.py litellm|instructor FILE URL

`prepare` writes the questions that alps asks about the samples in DATA, of the model and of the
judge, one a line; the others ask them, 64 at once, and keep nothing: no ledger, no journal, no
cache, no retries, no scores.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

AT_ONCE = 64
MODEL, JUDGE = "openai/scripted", "openai/scripted-judge"
Ask = Callable[[dict[str, Any]], Awaitable[object]]


def questions(data: str) -> Iterator[dict[str, Any]]:
    """Yield each question: its `id`, its `model` and its `input`, which are the messages."""
    from scripted import content

    from alps.data.release import open_split, read_samples
    from alps.judges.llm import LlmJudge
    from alps.judges.matching import MatchQuestion, gold_items, predicted_items
    from alps.llm.recording import Recorder
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


def asking(client: str, url: str) -> Ask:
    """Return what asks one question: litellm alone, or instructor over it with our schemas."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    litellm.suppress_debug_info = True
    common = {"api_base": url, "api_key": "not-needed", "max_retries": 0}
    if client == "litellm":
        return lambda row: litellm.acompletion(model=row["model"], messages=row["input"], **common)
    import instructor

    from alps.judges.rubric import MATCH_ANSWER
    from alps.tasks import load_tracks

    schemas = {MODEL: load_tracks("extraction")[0].answer.schema, JUDGE: MATCH_ANSWER.schema}
    create = instructor.from_litellm(
        litellm.acompletion, mode=instructor.Mode.JSON_SCHEMA
    ).chat.completions.create
    return lambda row: create(
        response_model=schemas[row["model"]],
        model=row["model"],
        messages=row["input"],
        strict=False,
        **common,
    )


async def ask_all(rows: list[dict[str, Any]], ask: Ask) -> None:
    """Ask every question, as many at once as alps does."""
    waiting = iter(rows)

    async def work() -> None:
        for row in waiting:
            await ask(row)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


def main() -> None:
    """Do what the words say."""
    what, where, other = sys.argv[1:]
    if what == "prepare":
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in questions(where))
        Path(other).write_text(text, encoding="utf-8")
        return
    rows = [json.loads(line) for line in Path(where).read_text(encoding="utf-8").splitlines()]
    asyncio.run(ask_all(rows, asking(what, other)))


if __name__ == "__main__":
    main()
