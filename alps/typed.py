"""What the user typed to have code of theirs imported.

`task=python:MODULE` among the words of a command.
"""


def allow_typed(words: tuple[str, ...]) -> tuple[str, ...]:
    """Allow the tasks that `task=python:MODULE` among `words` names to be imported.

    Return the other words.
    """
    from alps.tasks.registry import PYTHON, allow_modules

    own = [word for word in words if word.startswith(f"task={PYTHON}")]
    for word in own:
        allow_modules(word.partition("=")[2])
    return tuple(word for word in words if word not in own)
