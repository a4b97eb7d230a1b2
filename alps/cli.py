"""The command `alps`: its subcommands, their words and their help."""

import sys
from collections.abc import Callable
from typing import Any, NoReturn

import click

from alps import __version__
from alps.completion import COMPLETE_VAR, SHELLS, ExplainedGroup, script, takes, words_of
from alps.errors import BudgetError, TooManyFailuresError
from alps.exit_codes import close_streams, encode_all, guarded, open_streams


# Each command imports what it needs when it is called: help and Tab must not wait for libraries.
@click.group(
    cls=ExplainedGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
)
@click.version_option(__version__, prog_name="alps")
@click.pass_context
def cli(context: click.Context) -> None:
    """Evaluate how LLM assistants extract, update, retrieve and use memories.

    \b
    Try it offline:
      alps run task=extraction model=rules data=samples
    """
    if context.invoked_subcommand is None:
        from alps.welcome import welcome

        click.echo(welcome())


@cli.command()
@takes("KEY=VALUE…", "alps.settings:RunSettings")
def run(settings: tuple[str, ...]) -> None:
    """Run a system on a task, judge it, and show its scores.

    The same command again resumes a run that was interrupted.

    \b
      alps run task=extraction model=rules data=samples
      alps run task=extraction model=openai/gpt-4.1-mini judge=openai/gpt-4.1
      alps run task=extraction model=openai/mine api_base=http://localhost:8000/v1
    """
    from alps.parsing import parse_words
    from alps.run.start import dry_run
    from alps.run.start import run as carry_out
    from alps.settings import RunSettings

    parsed = parse_words(settings, RunSettings)
    if parsed.dry_run:
        from alps.report.tables import show_estimate

        show_estimate(
            dry_run(parsed), max_cost=parsed.max_cost, max_total_tokens=parsed.max_total_tokens
        )
    else:
        _show(carry_out(parsed))


@cli.command()
@click.argument("run_folder", metavar="RUN", shell_complete=words_of(runs=True))
@takes("judge=…", "alps.settings:JudgeSettings")
def score(run_folder: str, settings: tuple[str, ...]) -> None:
    """Judge the finished predictions of a run again, with another judge.

    \b
      alps score runs/extraction-rules-samples judge=openai/gpt-4.1
    """
    from alps.parsing import parse_words
    from alps.run.opened import find_run
    from alps.run.start import score_again
    from alps.settings import JudgeSettings

    parsed = parse_words(_allow_typed(settings), JudgeSettings)
    _show(score_again(find_run(run_folder), _typed_settings(parsed)))


@cli.command()
@takes(
    "RUN… judge=… prompts=DIR [out=DIR] [format=json]",
    "alps.settings:SensitivitySettings",
    runs=True,
)
def sensitivity(words: tuple[str, ...]) -> None:
    """Judge the same predictions under several wordings of a judge's rubrics.

    The result shows how far the scores move.

    DIR holds a folder a wording, with a file RUBRIC.md for each rubric that it says in other words;
    our own wording always stands among them.

    \b
      alps sensitivity runs/extraction-rules-samples judge=openai/gpt-4.1 prompts=wordings
    """
    from alps.parsing import parse_words, part_words
    from alps.report.sensitivity import find_sensitivity, print_sensitivity
    from alps.run.opened import find_run
    from alps.run.sensitivity import judge_reworded, plan_wordings
    from alps.settings import SensitivitySettings

    runs, settings = part_words(_allow_typed(words))
    parsed = parse_words(settings, SensitivitySettings)
    plan = plan_wordings([find_run(word) for word in runs], parsed)
    click.echo(plan.announcement, err=True)
    done = judge_reworded(plan, _typed_settings(parsed))
    _print(find_sensitivity(done), parsed.format, print_sensitivity)
    _stop_at_budget(done)
    if done.too_many_unscored:
        sys.exit(1)


@cli.command()
@click.argument("run_folder", metavar="RUN", shell_complete=words_of(runs=True))
@click.argument("record", metavar="[ID]", default="")
@takes("[task=python:MODULE]", own_task=True)
@click.option("--full", is_flag=True, help="Show long turns whole.")
def show(run_folder: str, record: str, settings: tuple[str, ...], full: bool) -> None:
    """Show one record of a run: dialogue, gold, prediction and verdicts side by side.

    Without ID the tables of the run are shown again, with all its breakdowns.

    ID is a benchmark id, the unique beginning of one, or a number in the order of the data; where a
    run has several tracks, TRACK/ID.
    """
    from alps.report.breakdowns import show_whole_run
    from alps.report.show import show_record
    from alps.run.opened import find_run

    if record.startswith("task=python:"):
        record, settings = "", (record, *settings)
    if others := _allow_typed(settings):
        raise click.UsageError(f"'{others[0]}': expected no more than task=python:MODULE")
    if not record:
        show_whole_run(find_run(run_folder))
        return
    show_record(find_run(run_folder), record, _console(), full=full)


@cli.command()
@click.argument("folder", default="runs", shell_complete=words_of(folders=True))
def ls(folder: str) -> None:
    """List the runs in a folder, the newest first."""
    from pathlib import Path

    from alps.report.listing import list_runs

    list_runs(Path(folder), _console())


@cli.command()
@takes("RUN… [out=FILE]", "alps.settings:ReportSettings", own_task=True, runs=True)
def report(words: tuple[str, ...]) -> None:
    """Write one self-contained HTML page about one or several runs.

    \b
      alps report runs/extraction-rules-samples out=report.html
    """
    from pathlib import Path

    from alps.parsing import parse_words, part_words
    from alps.report.page import write_report
    from alps.run.opened import find_run
    from alps.settings import ReportSettings

    runs, settings = part_words(_allow_typed(words))
    out = parse_words(settings, ReportSettings).out
    folders = [find_run(run) for run in runs]
    if not folders:
        raise click.UsageError("name at least one run")
    path = write_report(folders, Path(out) if out else folders[0] / "report.html")
    click.echo(f"wrote {path}")


@cli.command()
@takes("RUN… [seed=…] [format=json]", "alps.settings:CompareSettings", own_task=True, runs=True)
def compare(words: tuple[str, ...]) -> None:
    """Compare runs on the records that all of them scored: differences, tests, ties.

    Only runs on the same data under the same judge are compared.

    \b
      alps compare runs/extraction-rules-samples runs/extraction-oracle-samples
    """
    from alps.parsing import parse_words, part_words
    from alps.report.compare import compare_runs, print_comparison
    from alps.run.opened import find_run
    from alps.settings import CompareSettings

    runs, settings = part_words(_allow_typed(words))
    parsed = parse_words(settings, CompareSettings)
    comparison = compare_runs([find_run(word) for word in runs], seed=parsed.seed)
    _print(comparison, parsed.format, print_comparison)


@cli.command()
@click.argument("run_folder", metavar="RUN", shell_complete=words_of(runs=True))
@takes("[rows=…] [max_cost=…] [model=…] [format=json]", "alps.settings:BesideSettings")
def beside(run_folder: str, settings: tuple[str, ...]) -> None:
    """Run the same reader with no memory, full context, oracle evidence and others; compare.

    Rows are sorted by the paired difference from no memory. What was run before is not asked again.

    \b
      alps beside runs/personamem-rules-samples
    """
    from alps.parsing import parse_words
    from alps.report.beside import beside as compare_memories
    from alps.report.beside import print_beside
    from alps.run.beside import run_beside
    from alps.run.opened import find_run
    from alps.settings import BesideSettings

    parsed = parse_words(_allow_typed(settings), BesideSettings)
    given = {} if parsed.max_cost is None else {"max_cost": parsed.max_cost}
    folder, rows = find_run(run_folder), parsed.rows.split(",")
    ran = run_beside(folder, rows, given, typed={"model": parsed.model})
    _print(compare_memories(ran.folders, ran.left_out), parsed.format, print_beside)


@cli.command()
@click.argument("run_folder", metavar="RUN", shell_complete=words_of(runs=True))
@click.argument("record", metavar="[ID]", default="")
@takes("[memory=…] [model=…] [format=json]", "alps.settings:DiagnoseSettings")
def diagnose(run_folder: str, record: str, settings: tuple[str, ...]) -> None:
    """Find where a memory system lost what each wrong answer of a run needed.

    The system is fed again, and the reader is asked again with the evidence alone. With ID, all
    that is known of one wrong answer.

    \b
      alps diagnose runs/personamem-rules-samples
      alps diagnose runs/mine memory=python:mine:Store
    """
    from alps.parsing import parse_words
    from alps.report.diagnose import print_diagnosis, print_miss
    from alps.run.diagnose import diagnose as find_losses
    from alps.run.opened import find_run
    from alps.settings import DiagnoseSettings

    if "=" in record:
        record, settings = "", (record, *settings)
    parsed = parse_words(settings, DiagnoseSettings)
    typed = {"model": parsed.model, "memory": parsed.memory}
    found = find_losses(find_run(run_folder), typed=typed)
    if record:
        print_miss(found, record, _console())
    else:
        _print(found, parsed.format, print_diagnosis)


@cli.group()
def data() -> None:
    """Look into a data set, or build one."""


@data.command("audit")
@takes("data=… [split=…] [format=json]", "alps.settings:AuditSettings")
def data_audit(settings: tuple[str, ...]) -> None:
    """Find leaks, duplicates and broken rows without a model.

    Exit 1 when something serious is found.

    \b
      alps data audit data=samples
      alps data audit data=FOLDER split=dev format=json
    """
    from alps.parsing import parse_words
    from alps.report.audit import print_audit
    from alps.settings import AuditSettings
    from alps.tasks.registry import audit_data

    parsed = parse_words(settings, AuditSettings)
    report = audit_data(parsed.data, parsed.split)
    _print(report, parsed.format, print_audit)
    sys.exit(1 if report.serious else 0)


@data.command("pools")
@takes("out=DIR [data=…] [distractors=…] [seed=…]", "alps.settings:PoolSettings")
def data_pools(settings: tuple[str, ...]) -> None:
    """Write the retrieval pools of a data set in the release layout.

    The same seed gives the same bytes.

    \b
      alps data pools data=samples distractors=300 out=pools
    """
    from alps.data.pools import write_pools
    from alps.parsing import parse_words
    from alps.settings import PoolSettings

    parsed = parse_words(settings, PoolSettings)
    sizes = None if parsed.distractors == "all" else (int(parsed.distractors),)
    for written in write_pools(
        parsed.data, parsed.split, out=parsed.out, sizes=sizes, seed=parsed.seed
    ):
        click.echo(written)


@data.command("personas")
@takes(
    "out=DIR [n=…] [size=…] [language=…] [seed=…] [model=…] [filter=…]",
    "alps.settings:PersonaSettings",
)
def data_personas(settings: tuple[str, ...]) -> None:
    """Write invented users and questions about them in PersonaMem's files.

    The same seed gives the same bytes. A model may write the texts, and a filter may drop what a
    model answers without the history; what is killed goes on when it is given again.

    \b
      alps data personas out=personas n=30 size=32k
      alps data personas out=personas n=30 model=openai/gpt-4.1 filter=openai/gpt-4.1-mini
    """
    from alps.parsing import parse_words
    from alps.personas.generate import generate
    from alps.settings import PersonaSettings

    parsed = parse_words(settings, PersonaSettings)
    done = generate(parsed)
    click.echo(f"{done.questions:,} questions about {done.personas:,} personas: {parsed.out}")
    if parsed.filter is not None:
        click.echo(f"{done.dropped:,} questions dropped: {parsed.filter} answers them blind")
    for reason in done.left_out:
        click.echo(f"left out: {reason}", err=True)


@cli.group()
def labels() -> None:
    """Prepare label folders, which judges are calibrated on."""


@labels.command("draw")
@click.argument("run_folder", metavar="RUN", shell_complete=words_of(runs=True))
@takes("out=DIR [n=…] [seed=…]", "alps.calibration.settings:DrawSettings")
def labels_draw(run_folder: str, settings: tuple[str, ...]) -> None:
    """Draw answers of a run at random for people to label.

    What its judge was asked, without what it said.

    \b
      alps labels draw runs/utilization-rules-samples n=100 out=labels
    """
    from pathlib import Path

    from alps.calibration.sample import draw_labels
    from alps.calibration.settings import DrawSettings
    from alps.parsing import parse_words
    from alps.run.opened import find_run

    parsed = parse_words(_allow_typed(settings), DrawSettings)
    drawn = draw_labels(find_run(run_folder), n=parsed.n, out=Path(parsed.out), seed=parsed.seed)
    for rubric, counts in drawn.rubrics.items():
        how = "at random" if counts.random else "the likeliest half chosen, so no random sample"
        click.echo(f"{rubric}: {counts.drawn:,} of {counts.population:,} drawn, {how}")
    click.echo(f"{drawn.folder}: {drawn.items:,} items to label; its README.md says how")


@cli.command()
@takes(
    "judge=… labels=DIR [out=DIR] [verdicts=FILE]", "alps.calibration.settings:CalibrateSettings"
)
def calibrate(settings: tuple[str, ...]) -> None:
    """Hold a judge against people's labels, rubric by rubric.

    The judge is asked about the labelled items, unless its verdicts are recorded. `labels=stress`
    are items of our own whose answers are known.

    \b
      alps calibrate judge=lexical labels=stress
      alps calibrate judge=openai/gpt-4.1 labels=DIR
      alps calibrate judge=gpt-4 labels=DIR verdicts=FILE out=calibrated
    """
    from alps.calibration.calibrate import calibrate_judge
    from alps.calibration.page import write_calibration_page
    from alps.calibration.settings import CalibrateSettings
    from alps.calibration.table import print_account, print_calibration
    from alps.parsing import parse_words

    parsed = parse_words(settings, CalibrateSettings)
    done = calibrate_judge(parsed)
    console = _console()
    print_calibration(done.reports, judge=done.judge, console=console)
    print_account(done, console)
    if done.folder is not None:
        page = write_calibration_page(done.row, done.folder / "calibration.html")
        click.echo(f"wrote {done.folder / 'calibration.json'}")
        click.echo(f"wrote {page}")
    _stop_at_budget(done)
    if done.too_many_unheard:
        sys.exit(1)


@cli.command()
@takes(
    "RUN… [name=…] [org=…] [url=…] [out=DIR]", "alps.leaderboard.settings:SubmitSettings", runs=True
)
def submit(words: tuple[str, ...]) -> None:
    """Pack finished runs of one system into a folder for the leaderboard.

    Shows what will be published.

    \b
      alps submit runs/extraction-rules-samples name="Our rules" dry_run=yes
    """
    from alps.leaderboard.commands import submit_command

    sys.exit(submit_command(words))


@cli.command()
@takes("SUBMISSION [data=…] [base=REF]", "alps.leaderboard.settings:VerifySettings", folders=True)
def verify(words: tuple[str, ...]) -> None:
    """Check a submission without trust: files, ids, hashes, and every printed score.

    Exit 1 where it is refused.

    Nothing from the folder is executed, and no network is needed.

    \b
      alps verify leaderboard/submissions/our-rules
    """
    from alps.leaderboard.commands import verify_command

    sys.exit(verify_command(words))


@cli.command()
@takes("SUBMISSION judge=… [data=PATH]", "alps.leaderboard.settings:RescoreSettings", folders=True)
def rescore(words: tuple[str, ...]) -> None:
    """Judge the predictions of a submission again, as a maintainer, and write its review.

    \b
      alps rescore leaderboard/submissions/our-rules judge=openai/gpt-4.1
    """
    from alps.leaderboard.commands import rescore_command

    sys.exit(rescore_command(words))


@cli.group()
def leaderboard() -> None:
    """Build the static leaderboard out of its submissions, or look at it."""


@leaderboard.command("build")
@takes("[submissions=DIR] [out=DIR]", "alps.leaderboard.settings:SiteSettings")
def leaderboard_build(settings: tuple[str, ...]) -> None:
    """Write the site: plain files that any static host can serve, from any path.

    \b
      alps leaderboard build out=site
    """
    from alps.leaderboard.commands import build_command

    sys.exit(build_command(settings))


@leaderboard.command("serve")
@takes("[submissions=DIR] [out=DIR] [port=…]", "alps.leaderboard.settings:ServeSettings")
def leaderboard_serve(settings: tuple[str, ...]) -> None:
    """Build the site and open it on this machine alone.

    \b
      alps leaderboard serve port=8000
    """
    from alps.leaderboard.commands import serve_command

    sys.exit(serve_command(settings))


@cli.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script that lets Tab complete commands, settings, their values and runs.

    \b
      eval "$(alps completion bash)"        in ~/.bashrc
      eval "$(alps completion zsh)"         in ~/.zshrc, after compinit
      alps completion fish | source         in ~/.config/fish/config.fish
    """
    click.echo(script(cli, shell))


@cli.command()
@takes("[memory=…]", "alps.settings:DoctorSettings")
def doctor(settings: tuple[str, ...]) -> None:
    """Check versions, keys, cache, links and samples; or a memory system.

    \b
      alps doctor
      alps doctor memory=python:mine:Store
    """
    from alps.parsing import parse_words
    from alps.report.doctor import examine
    from alps.report.memory import examine_memory
    from alps.settings import DoctorSettings

    asked = parse_words(settings, DoctorSettings)
    if asked.memory is not None:
        sys.exit(examine_memory(asked, _console()))
    sys.exit(examine(_console()))


def _allow_typed(words: tuple[str, ...]) -> tuple[str, ...]:
    """Let the tasks of `task=python:MODULE` among `words` be imported; return the other words."""
    from alps.tasks.registry import PYTHON, allow_modules

    # Not what a manifest names: to look at a stranger's run must not run the stranger's code.
    own = [word for word in words if word.startswith(f"task={PYTHON}")]
    for word in own:
        allow_modules(word.partition("=")[2])
    return tuple(word for word in words if word not in own)


def _typed_settings(settings: Any) -> dict[str, Any]:
    """Return the settings that were typed; all others are those of the run."""
    return {name: getattr(settings, name) for name in sorted(settings.model_fields_set)}


def _console() -> Any:
    from alps.report.terminal import terminal

    return terminal()


def _print(result: Any, form: str, print_table: Callable[[Any, Any], None]) -> None:
    if form == "json":
        import json

        click.echo(json.dumps(result.as_json(), ensure_ascii=False, indent=2))
    else:
        print_table(result, _console())


def _stop_at_budget(done: Any) -> None:
    # Shown first, as what was judged before is worth seeing.
    if done.budget_spent:
        raise BudgetError("stopped by the budget; the same command with a larger one goes on")


def _show(finished: Any) -> None:
    from alps.report.tables import show_run

    metrics = {task.track: task.metrics for task in finished.tasks}
    show_run(finished.summary, metrics, folder=str(finished.folder))
    _stop_at_budget(finished)
    if finished.complaint is not None:
        raise TooManyFailuresError(finished.complaint)


def main() -> NoReturn:
    """Run the command; errors the user can mend are one line on stderr, without a traceback."""
    # Before anything is opened or printed: the first file would else become a closed stdout.
    open_streams()
    encode_all()
    sys.exit(
        close_streams(guarded(lambda: cli.main(standalone_mode=False, complete_var=COMPLETE_VAR)))
    )
