"""Commands that compare judges on the same answers: `sensitivity`, `judges`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alps.commands.common import command, print_as, say, stop_at_budget, typed_settings

if TYPE_CHECKING:
    from alps.ext.judging.settings import JudgesSettings, SensitivitySettings


@command(
    "RUN… judge=… prompts=DIR [out=DIR] [format=json]",
    "alps.ext.judging.settings:SensitivitySettings",
    runs=True,
)
def sensitivity(runs: list[Path], settings: "SensitivitySettings") -> None:
    """Judge the same predictions under several wordings of a judge's rubrics.

    The result shows how far the scores move.

    DIR holds a folder a wording, with a file RUBRIC.md for each rubric that it says in other words;
    our own wording always stands among them.

    \b
      alps sensitivity runs/extraction-rules-samples judge=openai/gpt-4.1 prompts=wordings
    """
    from alps.ext.judging.judging_runs import judge_cells, plan_wordings
    from alps.ext.judging.sensitivity import find_sensitivity, print_sensitivity

    plan = plan_wordings(runs, settings)
    say(plan.announcement, err=True)
    done = judge_cells(plan, typed_settings(settings))
    print_as(find_sensitivity(done), settings.format, print_sensitivity)
    stop_at_budget(done)
    if done.too_many_unscored:
        sys.exit(1)


@command(
    "RUN… judge=a,b [prompts=DIR] [draws=…] [out=DIR] [format=json]",
    "alps.ext.judging.settings:JudgesSettings",
    runs=True,
)
def judges(runs: list[Path], settings: "JudgesSettings") -> None:
    """Judge the same predictions by several judges, and with several prompts.

    The result shows how far they agree, whether judge, prompt or noise moves a score, and how often
    two runs swap places. lexical and two judges that always say the same stand beside.

    With anchors=DIR the answers of OLD are judged once more into DIR, without the cache, and the
    change from OLD to NEW is split into that of the judge and that of the system.

    \b
      alps judges runs/extraction-rules-samples judge=openai/gpt-4.1,openai/gpt-4o
      alps judges runs/a runs/b judge=openai/gpt-4.1 prompts=wordings draws=3
      alps judges runs/old runs/new anchors=runs/old-judged-now
    """
    from alps.ext.judging.judges import observe
    from alps.ext.judging.judging_runs import judge_cells, plan_judges
    from alps.ext.judging.tables import FILE, print_observatory, write_observatory_page

    if settings.anchors is not None:
        _drift(runs, settings)
        return
    plan = plan_judges(runs, settings)
    say(plan.announcement, err=True)
    done = judge_cells(plan, typed_settings(settings))
    observed = observe(done)
    print_as(observed, settings.format, print_observatory)
    page = write_observatory_page(observed, plan.out / FILE)
    say(f"wrote {page}", err=settings.format == "json")
    stop_at_budget(done)
    if done.too_many_unscored:
        sys.exit(1)


def _drift(folders: list[Path], parsed: Any) -> None:
    """Split the change between two runs; judge the anchors where they are not judged yet."""
    from alps.errors import UsageError
    from alps.ext.judging.drift import find_drift, judge_anchors, print_drift
    from alps.run.opened import SUMMARY

    if len(folders) != 2:
        raise UsageError(f"anchors= takes two runs, the old and the new one, got {len(folders)}")
    anchors, typed, ours = Path(parsed.anchors), typed_settings(parsed), ("anchors", "format")
    finished = (anchors / SUMMARY).is_file()
    nothing = {"prompts", "draws", "out"} | (typed.keys() - {*ours, "level"} if finished else set())
    if others := sorted(nothing & typed.keys()):
        raise UsageError(f"{others[0]}= would change nothing beside anchors={anchors}")
    if not finished:
        judging = {name: value for name, value in typed.items() if name not in (*ours, "level")}
        done = judge_anchors(folders[0], folders[1], anchors, judging)
        stop_at_budget(done)
        if done.too_many_unscored:
            sys.exit(1)
    print_as(find_drift(folders, anchors, parsed.level), parsed.format, print_drift)
