"""One process at a time in a run folder."""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from alps.errors import RunFolderError
from alps.llm.ledger import Ledger

try:
    import fcntl
except ImportError:  # Windows has no flock; the run then goes unguarded
    _guarded = False
else:
    _guarded = True

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)


class FolderLock:
    """Holds `<folder>/.lock` for the life of the process.

    The system lets go of it even after `kill -9`.

    Raises:
        RunFolderError: If another process holds it; the message names that process.
    """

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        if not _guarded:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(self._file, 200).decode(errors="replace").strip() or "another process"
            os.close(self._file)
            raise RunFolderError(
                f"{folder}: in use by {holder}; wait for it, or choose another out="
            ) from error
        except OSError as error:  # a file system that knows no locks
            os.close(self._file)
            raise RunFolderError(
                f"{folder}: can't be locked ({error.strerror}); choose another out="
            ) from error
        os.ftruncate(self._file, 0)
        os.write(self._file, f"process {os.getpid()} on {socket.gethostname()}".encode())

    def release(self) -> None:
        """Let go of the folder."""
        with suppress(OSError):
            os.ftruncate(self._file, 0)
        os.close(self._file)


@contextmanager
def claimed_folder(folder: Path) -> Iterator[Ledger]:
    """Make `folder`, and hold it and its ledger of calls until the end.

    Raises:
        RunFolderError: If it can't be written, or another process holds it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FolderLock(folder)
    except OSError as error:
        raise RunFolderError(f"{folder}: {error.strerror}; choose another out=") from error
    try:
        ledger = Ledger(folder / "calls.jsonl")
        try:
            yield ledger
        finally:
            ledger.close()
    except OSError as error:
        if error.errno in _DISK and error.filename is None:
            error.filename = str(
                folder
            )  # a write does not say of which file, and the cache is on another disk maybe
        raise
    finally:
        lock.release()
