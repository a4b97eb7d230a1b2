"""The command `alps`: its subcommands, what it says when it is asked nothing, and how it ends.

What goes wrong becomes an exit code, and one line on stderr if the user can mend it.
"""

import codecs
import errno
import gc
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

import click

from alps import __version__
from alps.errors import AlpsError, one_line
from alps.event_loop import cancel_loop
from alps.explained import ExplainedGroup, tab_answers
from alps.extension import COMMANDS, blamed, has_command, names_of_others

COMPLETE_VAR = "_ALPS_COMPLETE"
"""The variable by which a shell asks what Tab is answered with."""
_EPILOG = "alps COMMAND --help lists settings"
_ON_TAB = "alps completion --help sets up Tab completion"
_TITLE = "Evaluate how LLM assistants extract, update, retrieve and use memories."
CAME_FOR = {
    "first score, offline": "alps run task=extraction model=rules",
    "your model": "alps run task=all model=openai/… judge=openai/… limit=3",
    "your memory system": "alps run task=personamem memory=python:mine:Mine …",
    "your judge": "alps calibrate judge=openai/… labels=DIR",
}
"""What people come for, and the command for it; the first works without network and key."""
_FURTHER = {"All commands": "alps --help", "Check this machine": "alps doctor"}
INTERRUPTED = 130
# Signals that end a command as Ctrl-C does: `kill`, a container that stops, a closed terminal.
_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
_LONGEST_PATH = 200
_SPACE = "; free some space, then run the same command again"
_RIGHTS = "; change its permissions, or choose another path"
_MENDS = {errno.ENOSPC: _SPACE, errno.EDQUOT: _SPACE}
_MENDS |= dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _RIGHTS)
# Substitutes where a terminal's encoding lacks our signs, one for one: tables keep shape.
_PLAIN = str.maketrans(dict(zip("–—−‘’“”«»·×→←↓↑…", '---\'\'""""*x><v^.', strict=True)))


class _Alps(ExplainedGroup):
    """The commands of the spine, and of extensions."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Say what else helps; nothing is advised of a deleted extension."""
        self.epilog = f"{_EPILOG}; {_ON_TAB}" if has_command("completion") else _EPILOG
        super().format_epilog(ctx, formatter)


# Each command imports what it needs when it is called: help and Tab must not wait for libraries.
@click.group(
    cls=_Alps,
    lazy=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
    subcommand_metavar="COMMAND [KEY=VALUE]…",
)
@click.version_option(__version__, prog_name="alps")
@click.pass_context
def cli(context: click.Context) -> None:
    """Evaluate how LLM assistants extract, update, retrieve and use memories."""
    if context.invoked_subcommand is None:
        click.echo(welcome())


def welcome() -> str:
    """Return the text, at most 80 columns wide, styled unless NO_COLOR is set."""
    width = max(map(len, CAME_FOR)) + 2
    lines = [_styled(_TITLE, bold=True), ""]
    # The command of a deleted extension is not advised.
    for what, command in CAME_FOR.items():
        if has_command(command.split()[1]):
            lines.append(f"  {what.ljust(width)}{_styled(command, fg='cyan')}")
    further = []
    for what, command in _FURTHER.items():
        if command == "alps --help" or has_command(command.split()[1]):
            further.append(f"{what}: {_styled(command, fg='cyan')}")
    return "\n".join([*lines, "", "       ".join(further)])


def _styled(text: str, **style: Any) -> str:
    return text if os.environ.get("NO_COLOR") else click.style(text, **style)


def _carry_out() -> Any:
    if COMPLETE_VAR in os.environ:
        tab_answers()  # a shell that click does not know by itself is answered, too
    return cli.main(standalone_mode=False, complete_var=COMPLETE_VAR)


def main() -> NoReturn:
    """Run the command; errors the user can mend are one line on stderr, without a traceback."""
    # Before anything is opened or printed: the first file would else become a closed stdout.
    open_streams()
    encode_all()
    # Records come and go without cycles: by its own thresholds the collector took 10 % of a run.
    gc.set_threshold(50_000, 20, 20)
    code = guarded(_carry_out)
    code = close_streams(code)
    # The interpreter would look through every object once more before it ends: 50 ms.
    gc.freeze()
    sys.exit(code)


class _Unread(io.FileIO):
    """A stream whose reader may go away, as `head` does: what is written then is dropped."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            return len(data)


def open_streams() -> None:
    """Give the command standard streams that it can print to, whatever it was started with."""
    # In the place of a closed one the null device is opened: the next file, a journal say, would
    # get its number, and with it all that is printed. A pipe that nobody reads any more breaks no
    # run off.
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is given: this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))
        elif isinstance(stream, io.TextIOWrapper) and _number_of(stream) == number:
            stream.flush()
            raw = io.BufferedWriter(_Unread(number, "w", closefd=False))
            kept = ("encoding", "errors", "line_buffering", "write_through")
            options = {option: getattr(stream, option) for option in kept}
            setattr(sys, name, io.TextIOWrapper(raw, **options))


def _number_of(stream: io.TextIOWrapper) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError):
        return None


def close_streams(code: int) -> int:
    """Print what is still to be printed; return `code`, or 2 where it can't be and that was 0."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            with suppress(OSError):  # else it fails again at the very end
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            code = code or _complain(f"the output could not be printed ({error.strerror})", 2)
    return code


def encode_all() -> None:
    """Let stdout and stderr print every text: what their encoding does not have is replaced."""
    codecs.register_error("alps", _replaced)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with suppress(OSError):  # its file was exchanged for one that can't be sought in
                stream.reconfigure(errors="alps")


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    plain = error.object[error.start : error.end].translate(_PLAIN)
    return "".join(sign if sign.isascii() else "?" for sign in plain), error.end


def guarded(command: Callable[[], object]) -> int:
    """Run `command` and return the exit code; what the user can mend is said on one line."""
    code: object = 0
    received: list[int] = []
    try:
        with _ended_alike(received):
            code = command()
    except AlpsError as error:
        code = _complain(str(error), error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
    except click.UsageError as error:
        hint = f" (see: {error.ctx.command_path} --help)" if error.ctx is not None else ""
        code = _complain(error.format_message() + hint, 2)
    except (KeyboardInterrupt, click.Abort):
        # A second Ctrl-C would break off the ending. Only the main thread may say so.
        with suppress(ValueError):
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        # Python ends itself by SIGINT if Ctrl-C came while a text was executed, as libraries do
        # while they are imported, though it was caught since. The next text that ends well is what
        # makes it forget that (CPython, `run_eval_code_obj`).
        exec("")
        code = 128 + received[0] if received else INTERRUPTED
        kept = "interrupted; alps keeps finished records; to resume, repeat the same command"
        _complain(kept, INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
    except OSError as error:
        if received:
            return 128 + received[0]  # it can't even be said: the terminal is gone
        hint = _MENDS.get(error.errno or 0, "") if error.filename else ""
        where = str(error.filename or "disk")
        where = where if len(where) <= _LONGEST_PATH else f"{where[:_LONGEST_PATH]}…"
        code = _complain(f"{where}: {error.strerror or error}{hint}", 2)
    except Exception as error:
        if isinstance(error, RuntimeError) and "home directory" in str(error):
            told = "your home folder is unknown; set HOME, or ALPS_CACHE to a folder for replies"
        elif not (told := blamed(error)):
            # What a method of theirs returned may raise much later, in a line of ours.
            if others := ", ".join(names_of_others()):
                what = f"a fault of alps, or of what an extension returned: {others}"
                _complain(f"{what}; to find out, uninstall the extension", 1)
            raise
        code = _complain(told, 2)
    return code if isinstance(code, int) else 0


@contextmanager
def _ended_alike(received: list[int]) -> Iterator[None]:
    """Let the signals that end a command do what Ctrl-C does; add the first one to `received`."""
    # Those that come after it are let pass, as many senders send two: only Ctrl-C again breaks off
    # the ending. Where they are ignored, as SIGHUP under nohup, they stay so.

    def end(number: int, frame: FrameType | None) -> None:
        if received:
            return
        received.append(number)
        on_control_c = signal.getsignal(signal.SIGINT)
        if callable(on_control_c):
            on_control_c(signal.SIGINT, frame)
        elif not cancel_loop():  # ignored, as for what a shell starts in the background
            raise KeyboardInterrupt

    handled = []
    with suppress(ValueError):  # only the main thread may
        for number in _ENDING:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, end)
                handled.append(number)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_IGN if received else signal.SIG_DFL)


def _complain(message: str, code: int) -> int:
    from alps.llm.secrets import redact  # only where there is something to say

    with suppress(OSError):  # the terminal may be gone
        click.echo(f"alps: {one_line(redact(message))}", err=True)
    return code
