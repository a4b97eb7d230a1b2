"""Result files of other benchmarks and harnesses, as tests write and import them."""

import json

import pytest

from alps.ext.importers.files import import_files
from alps.ext.importers.settings import ImportSettings
from tests.endtoend import rows

# Everything below is invented: no text is one of the benchmarks'.
ASKED = {
    "Which instrument does Ines practise?": ("A viola", "She plays the viola.", 1),
    "Where did Bo leave the canoe?": ("At Lake Orrin", "In the garage", 0),
    "When is the flower market?": ("7 May 2031", "7 May 2031", 1),
    "What would Ines cook for guests?": ("Dumplings", "Perhaps dumplings", 1),
}
CATEGORIES = ("1", "4", "2", "3")


def by_conversation(make):
    """Return the rows of two conversations that hold the same questions."""
    made = {}
    for conversation in ("0", "1"):
        made[conversation] = [
            make(question, gold, said, score, category)
            for (question, (gold, said, score)), category in zip(
                ASKED.items(), CATEGORIES, strict=True
            )
        ]
    return made


def mem0_row(question, gold, said, score, category):
    own = {"question": question, "answer": gold, "response": said, "category": category}
    return {**own, "bleu_score": 0.1, "f1_score": 0.2, "llm_score": score}


def locomo(name="gpt-9"):
    """Return the file of LoCoMo's own evaluation, with one adversarial question."""
    conversations = []
    for place, listed in by_conversation(lambda *row: row).items():
        asked = []
        for question, gold, said, score, category in listed:
            own = {"question": question, "answer": gold, "category": int(category)}
            asked.append({**own, f"{name}_prediction": said, f"{name}_f1": float(score)})
        trap = {"question": "What colour is Bo's submarine?", "category": 5}
        asked.append({**trap, f"{name}_prediction": "Not mentioned", f"{name}_f1": 1})
        conversations.append({"sample_id": f"talk-{place}", "qa": asked})
    return conversations


def omnimemeval():
    def row(question, gold, said, score, category):
        own = {"question": question, "answer": said, "golden_answer": gold}
        draws = {"judgment_1": bool(score), "judgment_2": True}
        return {**own, "category": int(category), "llm_judgments": draws, "status": "success"}

    return by_conversation(row)


def halumem():
    asked = [
        {"uuid": "u1", "question": "Where does Ida row?", "answer": "On the Drava"},
        {"uuid": "u2", "question": "Who feeds the hens?", "answer": "Her nephew"},
        {"uuid": "u2", "question": "Is the barn red?", "answer": "No"},
    ]
    said = ("On the Drava", "Her uncle", "It is red")
    results = ("Correct", "Hallucination", None)
    questions = []
    for question, answer, result in zip(asked, said, results, strict=True):
        questions.append({**question, "system_response": answer, "result_type": result})
    memory = {"uuid": "u1", "memory_type": "Event Memory", "importance": 1}
    return {
        "overall_score": {},
        "question_answering_records": questions,
        "memory_update_records": [
            {**memory, "memory_content": "Rows on the Mur now", "memory_update_type": "Correct"},
            {**memory, "memory_content": "Sold the hens", "memory_update_type": "Omission"},
        ],
        "memory_integrity_records": [
            {**memory, "memory_content": "Keeps hens", "memory_integrity_score": 2},
            {**memory, "memory_content": "Rows", "memory_integrity_score": 1},
            {**memory, "memory_content": "A lie", "memory_source": "interference"},
        ],
    }


AMB_NAMES = {"1": "single-hop", "2": "temporal", "3": "multi-hop", "4": "open-domain"}


def amb(accuracy, dataset="orrin"):
    results = []
    for conversation, listed in by_conversation(lambda *row: row).items():
        for place, (question, gold, said, score, number) in enumerate(listed):
            category = AMB_NAMES[number] if dataset == "locomo" else f"kind {number}"
            about = {"sample_id": conversation, "category": category}
            own = {"query_id": f"{conversation}-{place}", "query": question, "answer": said}
            judged = {"gold_answers": [gold], "correct": bool(score), "judge_reason": "so"}
            results.append({**own, **judged, "meta": about})
    return {"run_name": "diary", "dataset": dataset, "accuracy": accuracy, "results": results}


LEAK = "over_personalization_chatbot_text"


def v3(*rows):
    """Return the table of PersonaMem v3 with rows of a task, its metrics and a status."""
    head = "query_id,seq,user_id,task_type,ts,metrics_json,status,duration_ms,error,agent_response"
    lines = [head]
    for number, (task, metrics, status, *name) in enumerate(rows):
        cell = json.dumps(metrics).replace('"', '""')
        about = name[0] if name else f"7:{number}:x"
        lines.append(f'{about},{number},7,{task},1,"{cell}",{status},5,,Paddle')
    return "\n".join(lines) + "\n"


def write(path, content):
    """Write a text, or anything else as JSON; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    return path


def inspect_log(path, samples, **more):
    """Write a log of Inspect with samples of one question: their values, and their errors."""
    log = pytest.importorskip("inspect_ai.log", reason="pip install 'alps-eval[inspect]'")
    from inspect_ai.model import ModelOutput
    from inspect_ai.scorer import Score

    listed = []
    for number, (value, error) in enumerate(samples):
        told = log.EvalError(message=error, traceback="", traceback_ansi="") if error else None
        scores = (
            {}
            if value is None
            else {"judge": Score(value=value, explanation=more.get("explanation"))}
        )
        own = {"input": more.get("input", f"Question {number}?"), "target": "So"}
        output = ModelOutput.from_content("m", "So")
        place = {"id": number // more.get("epochs", 1), "epoch": 1 + number % more.get("epochs", 1)}
        listed.append(log.EvalSample(**place, **own, output=output, scores=scores, error=told))
    spec = log.EvalSpec(
        created="2031-05-07T10:00:00+00:00",
        task="diary",
        model="openai/gpt-9",
        dataset=log.EvalDataset(samples=more.get("planned", len(samples))),
        config=log.EvalConfig(epochs=more.get("epochs", 1)),
    )
    status = more.get("status", "success")
    log.write_eval_log(log.EvalLog(status=status, eval=spec, samples=listed), path)
    return path


def import_here(folder, form, *paths, **more):
    """Import files in this process into `out` of a folder."""
    return import_files(form, paths, ImportSettings(out=str(folder / "out"), **more))


def answers_of(found):
    return rows(found.folder / "answers.jsonl")
