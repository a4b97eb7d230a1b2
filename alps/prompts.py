"""Prompts and rubrics: Markdown files with an id, known by their hash."""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Prompt:
    """A prompt file: its id, its text without the id line, and the sha256 of the whole file."""

    id: str
    text: str
    sha256: str


@cache
def load_prompt(package: str, folder: str, name: str) -> Prompt:
    """Read `<package>/<folder>/<name>.md`, whose first line is `<!-- id: NAME/VERSION -->`.

    Raises:
        ValueError: If the first line is not an id line.
    """
    raw = (files(package) / folder / f"{name}.md").read_text(encoding="utf-8")
    return read_prompt(raw, f"{package}/{folder}/{name}.md")


def asked_sha256(prompt: Prompt, schema: str | None) -> str:
    """Return the sha256 of a prompt and the schema of its reply."""
    # The schema is sent with the request: another one asks for other answers under the same text.
    if schema is None:
        return prompt.sha256
    return hashlib.sha256(f"{prompt.sha256}\n{schema}".encode()).hexdigest()


def read_prompt(raw: str, where: str) -> Prompt:
    """Read the text of a prompt file; `where` names it in errors.

    Raises:
        ValueError: If the first line is not an id line.
    """
    head, _, body = raw.partition("\n")
    if not (head.startswith("<!-- id: ") and head.endswith(" -->")):
        raise ValueError(f"{where} must start with '<!-- id: NAME/VERSION -->', got {head!r}")
    digest = hashlib.sha256(raw.encode()).hexdigest()
    return Prompt(id=head[len("<!-- id: ") : -len(" -->")], text=body.strip(), sha256=digest)
