"""Why options are wrong, as a generated set says it: `options_<size>.jsonl`, a question a line."""

from pathlib import Path

from alps.errors import DataError
from alps.jsonl import scan
from alps.slips import refuse_form_of


def read_kinds(path: Path) -> dict[str, tuple[str, ...]]:
    """Return the kind of each option by question id; `gold` is that of the right one.

    A folder without the file gives nothing: the published sets don't say it.

    Raises:
        DataError: If a row can't be read; names file, line and field.
    """
    kinds: dict[str, tuple[str, ...]] = {}
    if not path.is_file():
        return kinds
    refuse_form_of(path)
    for line, (_, _, row) in enumerate(scan(path), start=1):
        if row is None:
            raise DataError("not a JSON object", path=path, line=line)
        question, options = row.get("question_id"), row.get("options")
        if not isinstance(question, str):
            raise DataError("expected a text", path=path, line=line, field="question_id")
        if not isinstance(options, list) or not all(isinstance(kind, str) for kind in options):
            raise DataError("expected a list of texts", path=path, line=line, field="options")
        kinds[question] = tuple(options)
    return kinds
