"""Judges compared: the same answers under several judges, prompts and draws."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alps.commands import command, print_as, say, stop_at_budget, typed_settings
from alps.extension import Extension

if TYPE_CHECKING:
    from alps.ext.judging.settings import JudgesSettings


@command(
    "RUN… judge=a,b [prompts=DIR] [draws=…] [out=DIR] [format=json]",
    "alps.ext.judging.settings:JudgesSettings",
    name="judges",
    runs=True,
)
def compare_judges(runs: list[Path], settings: "JudgesSettings") -> None:
    """Compare judges, prompts and repeated verdicts on the same answers.

    The output shows how far judges agree, whether the judge, the prompt or noise changes a score,
    and how often two runs swap ranks. For comparison, it includes the lexical judge and two
    constant judges.

    With one judge and prompts=DIR, the output shows how far each prompt variant changes scores.
    DIR has one folder per variant, with a file RUBRIC.md for each rubric to rewrite; the built-in
    prompts are always included.

    With anchors=DIR, alps judges the answers of the first run (OLD) again without the cache, and
    stores the scores in DIR. The output splits the change from OLD to the second run (NEW) into a
    change of the judge and a change of the system.

    \b
      alps judges runs/extraction-rules-samples judge=openai/gpt-4.1,openai/gpt-4o
      alps judges runs/a runs/b judge=openai/gpt-4.1 prompts=variants
      alps judges runs/a runs/b judge=openai/gpt-4.1 prompts=variants draws=3
      alps judges runs/old runs/new anchors=runs/old-judged-now
    """
    from alps.ext.judging.judges import observe
    from alps.ext.judging.judging_runs import judge_cells, plan_judges, plan_wordings
    from alps.ext.judging.sensitivity import find_sensitivity, print_sensitivity
    from alps.ext.judging.tables import FILE, print_observatory, write_observatory_page

    if settings.anchors is not None:
        _drift(runs, settings)
        return
    # With one judge and one draw nothing but the prompt varies, so there are no sources to split.
    one_draw = settings.prompts is not None and settings.draws == 1
    only_prompts = one_draw and _is_one_llm(settings.judge)
    planned = plan_wordings if only_prompts else plan_judges
    plan = planned(runs, settings)
    say(plan.announcement, err=True)
    done = judge_cells(plan, typed_settings(settings))
    if only_prompts:
        print_as(find_sensitivity(done), settings.format, print_sensitivity)
    else:
        observed = observe(done)
        print_as(observed, settings.format, print_observatory)
        page = write_observatory_page(observed, plan.out / FILE)
        say(f"wrote {page}", err=settings.format == "json")
    stop_at_budget(done)
    if done.too_many_unscored:
        sys.exit(1)


def _is_one_llm(judge: str) -> bool:
    from alps.judges.embedded import is_embedded_judge

    return bool(judge) and "," not in judge and not is_embedded_judge(judge)


def _drift(folders: list[Path], parsed: Any) -> None:
    """Split the change between two runs; judge the anchors where they are not judged yet."""
    from alps.errors import UsageError
    from alps.ext.judging.drift import find_drift, judge_anchors, print_drift
    from alps.run.opened import SUMMARY

    if len(folders) != 2:
        raise UsageError(f"anchors= needs two runs (old and new), got {len(folders)}")
    anchors, typed, ours = Path(parsed.anchors), typed_settings(parsed), ("anchors", "format")
    finished = (anchors / SUMMARY).is_file()
    # Anchors that are judged already ask nobody: settings of a judge would be read by no one.
    nothing = {"prompts", "draws", "out"} | (typed.keys() - {*ours, "level"} if finished else set())
    if others := sorted(nothing & typed.keys()):
        raise UsageError(f"{others[0]}= would change nothing with anchors={anchors}; leave it out")
    if not finished:
        judging = {name: value for name, value in typed.items() if name not in (*ours, "level")}
        done = judge_anchors(folders[0], folders[1], anchors, judging)
        stop_at_budget(done)
        if done.too_many_unscored:
            sys.exit(1)
    print_as(find_drift(folders, anchors, parsed.level), parsed.format, print_drift)


EXTENSION = Extension(
    "judging",
    heading="Judge",
    commands={"judges": "alps.ext.judging:compare_judges"},
    moved={"sensitivity": "judges"},
)
