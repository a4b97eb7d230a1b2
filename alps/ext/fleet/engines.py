"""The engine that `engine=` names: this process, processes of this machine, or a cluster."""

from alps.event_loop import run_loop
from alps.ext.fleet.shards import divide, merged
from alps.run.finished import Finished
from alps.run.opened import SUMMARY
from alps.run.session import refuse_without_effect, run_folder
from alps.run.start import run_here
from alps.settings import RunSettings


def run(settings: RunSettings) -> Finished:
    """Carry out a run, or what is left of it, by the engine that it names.

    A run that is finished already goes on in this process: there is little left to ask.

    Raises:
        AlpsError: If the settings, the data or the folder can't be used, or a shard fails.
    """
    finished_before = (run_folder(settings) / SUMMARY).exists() and not settings.fresh
    if finished_before:
        return run_here(settings)
    refuse_without_effect(settings)
    if settings.engine == "processes":
        from alps.ext.fleet.processes import carry_out

        divided = divide(settings)
    else:
        from alps.ext.fleet.cluster import carry_out, count_workers

        # The keys are those of the workers: here there may be none.
        workers = settings.workers or run_loop(count_workers(str(settings.scheduler)))
        divided = divide(settings, workers=workers, keys=False)
    with divided.held():
        if divided.left():
            run_loop(carry_out(divided))
        return merged(divided)
