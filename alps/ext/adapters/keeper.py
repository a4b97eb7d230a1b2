"""The parent of a program under test: when it goes, everything that the program started goes.

It runs as a script of its own, between `alps` and the program, and imports nothing of the package:

    python -I -S keeper.py LIFELINE STATUS COMMAND [ARGUMENT...]

LIFELINE is the reading end of a pipe whose other end only `alps` holds. It ends when `alps` does,
however that happens: even SIGKILL leaves nobody behind. On Linux the keeper is a subreaper: a child
of the program that makes itself a session of its own, and outlives its parent, becomes the keeper's
child, and not init's. So "no children left" means that nothing is left. Elsewhere the process group
of the program is all that can be found.

On STATUS it writes the process id of the program, or why it could not be started: `-ERRNO`. SIGTERM
is handed on to the program's group. It ends as the program did, by exit code or signal.
"""

import errno
import os
import select
import signal
import sys
import time
from contextlib import suppress

_SUBREAPER, _PARENT_DEATH = 36, 1  # PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG
_SWEEPING = 5.0  # seconds
# Signals that the keeper, or Python in it, takes in another way than a program expects
_TOLD = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)
_OURS = (*_TOLD, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ)


def main() -> None:
    """Start the program, wait for its end or that of the lifeline, and leave nothing behind."""
    lifeline, status, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    for number in (lifeline, status):
        os.set_inheritable(number, False)
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in _TOLD:
        signal.signal(number, lambda *_: None)  # what alps is told, it tells us
    _prctl(_SUBREAPER, 1)
    program = _start(command, status)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):  # the pipes of the program: their ends must be seen when it ends
        os.dup2(nowhere, number)
    _end_like(_sweep(program, _watch(program, lifeline, woken)))


def _start(command: list[str], status: int) -> int:
    failed, failing = os.pipe()
    parent = os.getpid()
    program = os.fork()
    if program == 0:
        try:
            os.setsid()
            _prctl(_PARENT_DEATH, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
            for number in _OURS:
                signal.signal(number, signal.SIG_DFL)
            os.execvp(command[0], command)
        except OSError as error:
            os.write(failing, str(error.errno or errno.ENOEXEC).encode())
        finally:
            os._exit(127)
    os.close(failing)
    why_not = os.read(failed, 16)
    os.close(failed)
    os.write(status, b"-" + why_not if why_not else str(program).encode())
    os.close(status)
    if why_not:
        os._exit(127)
    return program


def _watch(program: int, lifeline: int, woken: int) -> int | None:
    """Wait; return the wait status of the program, None where the lifeline ended first."""
    while True:
        ready, _, _ = select.select([lifeline, woken], [], [])
        if lifeline in ready:
            return None
        numbers = os.read(woken, 512)
        if signal.SIGTERM in numbers:
            _kill(-program, signal.SIGTERM)
        ended, others = _reap(program)
        if ended is not None or not others:
            return ended


def _reap(program: int) -> tuple[int | None, bool]:
    """Reap who has ended; return the program's wait status if it has, and if any are left."""
    ended = None
    while True:
        try:
            child, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, False
        if child == 0:
            return ended, True
        if child == program:
            ended = status


def _sweep(program: int, ended: int | None) -> int | None:
    """Kill and reap until there is no child: who forks meanwhile is found in the next round."""
    deadline = time.monotonic() + _SWEEPING
    while time.monotonic() < deadline:
        if ended is None:
            _kill(-program, signal.SIGKILL)
        family = _descendants()
        # first stopped: a fork bomb is then at rest when it is killed
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for child in family:
                _kill(child, number)
        died, others = _reap(program)
        ended = died if died is not None else ended
        if not others:
            break
        time.sleep(0.005)
    return ended


def _descendants() -> list[int]:
    """Return all processes under this one, from /proc; none where there is no /proc."""
    parents: dict[int, int] = {}
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    for name in names:
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except OSError:  # it ended meanwhile
            continue
        if state != b"Z":
            parents[int(name)] = int(parent)
    family = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return sorted(family - {os.getpid()})


def _kill(process: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)


def _end_like(ended: int | None) -> None:
    """End with the exit code of the program, or by the signal that ended it."""
    if ended is None:
        os._exit(0)
    if os.WIFSIGNALED(ended):
        number = os.WTERMSIG(ended)
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the core is the program's, not ours
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(ended) & 0xFF)


def _prctl(option: int, value: int) -> None:
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()
