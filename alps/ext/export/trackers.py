"""Runs in the stores of experiment trackers: MLflow's file store, and Weights & Biases offline."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from alps.ext.export.rows import score_rows, times_of, write_parquet
from alps.run.opened import RunFolder

# What MLflow takes in no name of a metric
_NO_METRIC = re.compile(r"[^\w./ -]")
_NAMES_OF_RUN = ("manifest.json", "summary.json", "config.toml")


def write_mlflow(runs: Sequence[RunFolder], out: Path) -> list[Path]:
    """Write a file store of MLflow: a run with metrics, settings and tables for each of ours."""
    with _variables({"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true"}):
        from mlflow import MlflowClient
        from mlflow.entities import Param

        client = MlflowClient(tracking_uri=out.resolve().as_uri())
        experiment = client.create_experiment("alps")
        for run in runs:
            began, ended = (int(moment.timestamp() * 1000) for moment in times_of(run))
            made = client.create_run(experiment, start_time=began, run_name=run.name)
            number = made.info.run_id
            params = [Param(name, str(value)) for name, value in _settings(run).items()]
            client.log_batch(number, params=params)
            for name, value in _metrics(run).items():
                known = _NO_METRIC.sub("_", name)
                client.log_metric(number, known, value, timestamp=ended)
            with TemporaryDirectory() as folder:
                for path in _artifacts(run, Path(folder)):
                    client.log_artifact(number, str(path))
            client.set_terminated(number, end_time=ended)
    return [out]


def write_wandb(runs: Sequence[RunFolder], out: Path) -> list[Path]:
    """Write offline runs of Weights & Biases: nothing is sent, until the user does `wandb sync`."""
    import wandb

    # Its logs and settings are left in the user's folders otherwise.
    with (
        TemporaryDirectory() as own,
        _variables({"WANDB_SILENT": "true", "WANDB_CACHE_DIR": own, "WANDB_CONFIG_DIR": own}),
    ):
        for run in runs:
            session = wandb.init(
                project="alps",
                name=run.name,
                dir=str(out),
                config=_settings(run),
                mode="offline",
                settings=wandb.Settings(
                    silent=True, console="off", disable_git=True, x_disable_stats=True
                ),
            )
            session.summary.update(_metrics(run))
            session.finish()
        # Its service flushes a run's file as it ends: one export in ten found only the head of it.
        wandb.teardown()
    return sorted((out / "wandb").glob("offline-run-*"))


def _settings(run: RunFolder) -> dict[str, Any]:
    """Return the settings of a run that were given, or took effect."""
    given = run.manifest.settings.items()
    settings = {name: value for name, value in given if value is not None}
    return {**settings, "alps": run.manifest.alps, "data_sha256": _hashes(run)}


def _hashes(run: RunFolder) -> str:
    return ",".join(str(track.sha256) for track in run.tracks.values())


def _metrics(run: RunFolder) -> dict[str, float]:
    """Return every figure of a run as TRACK/METRIC, with the ends of its interval and its n."""
    metrics: dict[str, float] = {}
    for row in score_rows(run):
        if row.slice or row.value is None:
            continue
        name = f"{row.track}/{row.metric}"
        if row.baseline:
            name = f"{row.track}/{row.system.replace('/', '_')}/{row.metric}"
        ends = {"ci_low": row.low, "ci_high": row.high, "n": float(row.n)}
        metrics[name] = row.value
        for end, value in ends.items():
            if value is not None:
                metrics[f"{name}_{end}"] = value
    return metrics | _calls(run)


def _calls(run: RunFolder) -> dict[str, float]:
    calls = run.finished.calls
    taken = {
        "calls/prompt_tokens": calls.prompt_tokens,
        "calls/completion_tokens": calls.completion_tokens,
        "calls/cost": calls.cost,
    }
    return {name: float(value) for name, value in taken.items() if value is not None}


def _artifacts(run: RunFolder, folder: Path) -> list[Path]:
    """Return the small files of a run, and its two tables, written into `folder`."""
    own = [run.folder / name for name in _NAMES_OF_RUN]
    return [path for path in own if path.is_file()] + write_parquet([run], folder)


@contextmanager
def _variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
