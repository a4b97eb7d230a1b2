"""Writing a page as one file, whole or not at all."""

from pathlib import Path

from alps.errors import RunFolderError


def write_page(page: str, path: Path) -> Path:
    """Write `page` in one atomic step; what UTF-8 can't hold is replaced.

    Raises:
        RunFolderError: If the file can't be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.tmp")
        temporary.write_bytes(page.encode(errors="replace"))
        temporary.replace(path)
    except OSError as error:
        raise RunFolderError(f"{path}: {error.strerror or error}; choose another out=") from error
    return path
