"""Answers to Tab: `key=` words, values, run folders.

A word is answered whole (`task=extraction`). Nothing heavy is imported, as Tab waits for it.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

from alps.cli import COMPLETE_VAR
from alps.explained import SettingKey, Words, needed_first

# Values of settings that take others, too; those of settings that take no others are read from the
# settings.
VALUES: Mapping[str, tuple[str, ...]] = {
    "judge": ("lexical", "minilm", "recorded:", "openai/", "anthropic/"),
    "rule": ("publishers", "lexical", "minilm", "openai/", "anthropic/"),
    "data": ("samples", "hub"),
    "labels": ("stress",),
    "calibration": ("off",),
}

_FOLDERS = frozenset(("data", "labels", "out", "prompts", "submissions"))
_FILES = frozenset(("config", "file", "verdicts", "calibration", "changed", "base", "people"))
_OF_A_FILE = ("predictions:", "recorded:")
_MODELS = ("openai/", "anthropic/", "predictions:", "program:", "python:")
_RUNS = "runs/"


def answers(
    context: click.Context,
    parameter: click.Parameter,
    incomplete: str,
    *,
    runs: bool,
    folders: bool,
) -> list[CompletionItem[str]]:
    """Answer Tab on the words of a command: run folders, other folders, and the settings."""
    before = context.params.get(parameter.name or "") or ()
    given = dict(word.split("=", 1) for word in before if "=" in word)
    items: list[CompletionItem[str]] = []
    if "=" not in incomplete and (runs or folders):
        items += _folders(incomplete, before, runs=runs)
    if isinstance(parameter, Words):
        items += _settings(parameter.keys(), incomplete, given)
    return items


def _folders(typed: str, before: Sequence[str], *, runs: bool) -> list[CompletionItem[str]]:
    words = _run_folders(typed) if runs else _paths(typed)
    return [CompletionItem(word) for word in words if word not in before]


def script(command: click.Command, shell: str) -> str:
    """Return the script that a shell in `SHELLS` reads to complete the words of `command`."""
    kind = get_completion_class(shell)
    if kind is None:
        raise ValueError(f"no completion for {shell}")
    completer = kind(command, {}, "alps", COMPLETE_VAR)
    return completer.source_template % completer.source_vars()


def _settings(
    keys: Mapping[str, SettingKey], incomplete: str, given: Mapping[str, str]
) -> list[CompletionItem[str]]:
    """Answer `key` or `key=value`."""
    name, equals, begun = incomplete.partition("=")
    if equals:
        return _with_values(name, begun, keys, given)
    # The first word of `alps run` may be the task alone.
    first = name and not given and "task" in keys and keys["task"].needed
    bare = _known("task", keys["task"], given) if first else ()
    tasks = [CompletionItem(word) for word in bare if word.startswith(name)]
    open_keys = {key: keys[key] for key in keys if key.startswith(name) and key not in given}
    # Where a single key fits, its values are answered in its place: the shell then fills in what
    # they share, `key=`, and adds no space to it.
    if len(open_keys) == 1 and name:
        items = _with_values(next(iter(open_keys)), "", keys, given)
        if items:
            return [*tasks, *items]
    # Fish takes a comma for the end of a word.
    return tasks + [
        CompletionItem(f"{key}=", help=setting.explained.replace(",", ";") or None)
        for key, setting in needed_first(open_keys)
    ]


def _with_values(
    name: str, begun: str, keys: Mapping[str, SettingKey], given: Mapping[str, str]
) -> list[CompletionItem[str]]:
    words = _values(name, keys[name], begun, given) if name in keys else []
    return [CompletionItem(f"{name}={word}") for word in words]


def _values(name: str, key: SettingKey, begun: str, given: Mapping[str, str]) -> list[str]:
    """Return the values of a setting that begin with `begun`; known names come before paths."""
    kind = begun.partition(":")[0] + ":"
    if name in ("model", "judge") and kind in _OF_A_FILE and begun.startswith(kind):
        return [kind + path for path in _paths(begun.removeprefix(kind), files=True)]
    known = _known(name, key, given)
    # Several tasks are named with commas between.
    listed = begun[: begun.rfind(",") + 1] if name == "task" else ""
    values = [word for word in _after(listed, known) if word.startswith(begun)]
    if name in _FOLDERS | _FILES:
        values += _paths(begun, files=name in _FILES)
    return values


def _after(listed: str, known: Sequence[str]) -> list[str]:
    """Return the names that may follow those that are `listed`, with these before them."""
    named = (*listed.split(","), "all") if listed else ()
    return [listed + word for word in known if word not in named]


def _known(name: str, key: SettingKey, given: Mapping[str, str]) -> Sequence[str]:
    """Return the values of a setting that are known by name; only tasks know their systems."""
    if name not in ("task", "model"):
        return key.values or VALUES.get(name, ())
    # Imported here: a Tab on any other word must not wait for the tasks.
    from alps.extension import brought_tasks
    from alps.tasks.registry import ALL, systems_by_task

    systems = systems_by_task()
    if name == "task":
        return (*systems, *brought_tasks(), ALL)
    return (*_systems(given.get("task", ALL), systems), *_MODELS)


def _systems(task: str, systems: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the systems that answer every task that is named; of no or all tasks, any system."""
    names: dict[str, None] = {}
    for of_task in systems.values():
        names |= dict.fromkeys(of_task)
    if task == "all":
        return list(names)
    named = [systems[name] for name in task.split(",") if name in systems]
    return [name for name in names if named and all(name in of_task for of_task in named)]


def _run_folders(incomplete: str) -> list[str]:
    """Return the run folders that begin so, and the folders on the way to others."""
    paths = _paths(incomplete)
    if incomplete != _RUNS and _RUNS.startswith(incomplete) and _RUNS in paths:
        paths.remove(_RUNS)
        paths = [*_paths(_RUNS), *paths]
    for n, path in enumerate(paths):
        if (Path(path).expanduser() / "manifest.json").is_file():
            paths[n] = path.rstrip("/")
    return paths


def _paths(begun: str, *, files: bool = False) -> list[str]:
    """Return the folders, each with a slash at its end, and maybe the files, by beginning."""
    folder, slash, name = begun.rpartition("/")
    try:
        inside = sorted(os.scandir(Path(folder + slash).expanduser()), key=lambda entry: entry.name)
    except (OSError, RuntimeError):  # no such folder, or no such user
        return []
    paths = []
    for entry in inside:
        hidden = entry.name.startswith(".") and not name
        if entry.name.startswith(name) and not hidden and (files or entry.is_dir()):
            paths.append(f"{folder}{slash}{entry.name}{'/' if entry.is_dir() else ''}")
    return paths


class _Bash(BashComplete):
    """Completion in bash, which takes `=` and `:` for the ends of words: it gets the rest."""

    name = "bash"
    source_template = """\
%(complete_func)s() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        [[ -n $line ]] && COMPREPLY+=("$line")
    done < <(env COMP_WORDS="${COMP_LINE:0:COMP_POINT}" %(complete_var)s=bash_complete "$1")
    if [[ ${COMPREPLY[0]} == *[=:/] ]]; then
        compopt -o nospace 2>/dev/null
    fi
    return 0
}
complete -o nosort -F %(complete_func)s %(prog_name)s 2>/dev/null ||
    complete -F %(complete_func)s %(prog_name)s
"""

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_WORDS"]
        words: Sequence[str] = split_arg_string(line)
        if len(words) < 2 or (line[-1:].isspace() and not line.endswith("\\ ")):
            return list(words[1:]), ""
        return list(words[1:-1]), words[-1]

    def complete(self) -> str:
        before, incomplete = self.get_completion_args()
        start = max(incomplete.rfind("="), incomplete.rfind(":")) + 1
        lines = []
        for item in self.get_completions(before, incomplete):
            # Bash would take a space or a quote in the name of a folder for its own.
            lines.append(re.sub(r"([^\w@%+=:,./-])", r"\\\1", item.value[start:]))
        return "\n".join(lines)


add_completion_class(_Bash)
