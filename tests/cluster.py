"""A cluster of dask on this machine: a scheduler and workers, each a process that can be killed."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HOST = "127.0.0.1"


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as listening:
        listening.bind((HOST, 0))
        return int(listening.getsockname()[1])


class Cluster:
    """A scheduler and its workers, whose output is in the folder; `env` is added to theirs."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self._folder = folder
        root = str(Path(__file__).resolve().parents[1])
        self._env = {**os.environ, "PYTHONPATH": root, **env}
        self.port = free_port()
        self.address = f"tcp://{HOST}:{self.port}"
        self.workers: list[subprocess.Popen[bytes]] = []
        self.started = 0
        self.start_scheduler()

    @property
    def log(self) -> str:
        """All that scheduler and workers have printed."""
        return "".join(path.read_text() for path in sorted(self._folder.glob("dask-*.log")))

    def start_scheduler(self) -> None:
        """Start the scheduler."""
        self.scheduler = self._start(
            "scheduler", "scheduler", "--host", HOST, "--port", str(self.port)
        )

    def start_worker(self) -> None:
        """Start a worker of one thread."""
        self.started += 1
        worker = self._start(
            *("worker", f"worker-{self.started}", self.address, "--host", HOST),
            *("--no-nanny", "--nthreads", "1", "--name", f"w{self.started}"),
            *("--local-directory", str(self._folder / "dask")),
        )
        self.workers.append(worker)

    def wait_for_workers(self, count: int) -> None:
        """Wait until so many workers have ever been seen."""
        deadline = time.monotonic() + 300
        while self.log.count("Registered to:") < count:
            assert time.monotonic() < deadline, self.log
            time.sleep(0.05)

    def end(self) -> None:
        """End all of them."""
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()

    def _start(self, kind: str, name: str, *words: str) -> subprocess.Popen[bytes]:
        command = (sys.executable, "-m", f"distributed.cli.dask_{kind}", *words, "--no-dashboard")
        with (self._folder / f"dask-{name}.log").open("ab") as log:
            return subprocess.Popen(
                command, cwd=self._folder, env=self._env, stdout=log, stderr=log
            )


@contextmanager
def cluster(folder: Path, *, workers: int, **env: str) -> Iterator[Cluster]:
    """Yield a cluster of so many workers, and end it."""
    made = Cluster(folder, env)
    try:
        for _ in range(workers):
            made.start_worker()
        made.wait_for_workers(workers)
        yield made
    finally:
        made.end()


def state_of_process(number: int | str) -> tuple[str, int] | None:
    """Return the sign of the state of a process and the id of its parent; None where it is gone."""
    try:
        stat = Path(f"/proc/{number}/stat").read_text()
    except OSError:
        return None
    sign, parent = stat.rpartition(")")[2].split()[:2]
    return sign, int(parent)


def worker_ids(parent: int) -> list[int]:
    """Return the process ids of the workers of a parent."""
    found = {int(name): state_of_process(name) for name in filter(str.isdigit, os.listdir("/proc"))}
    return [number for number, state in found.items() if state and state[1] == parent]


def is_running(number: int) -> bool:
    """Tell whether a process is there, and no zombie."""
    state = state_of_process(number)
    return state is not None and state[0] != "Z"


def state_of(address: str) -> str:
    """Return all that a scheduler holds of its tasks, their arguments among it."""
    asked = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, address],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return asked.stdout


def _print_state(address: str) -> None:
    from distributed import Client

    def state(dask_scheduler: object) -> list[str]:
        import cloudpickle

        tasks = dask_scheduler.tasks.values()  # type: ignore[attr-defined]
        held = [repr(cloudpickle.dumps(task.run_spec)) for task in tasks]
        return [*held, repr(dask_scheduler._to_dict())]  # type: ignore[attr-defined]

    with Client(address, set_as_default=False) as client:
        print("\n".join(client.run_on_scheduler(state)))


if __name__ == "__main__":
    _print_state(sys.argv[1])
