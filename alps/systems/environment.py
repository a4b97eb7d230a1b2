"""What a program under test is given of the user's environment: what programs need to run, and no
key.
"""

import os
import re
from collections.abc import Sequence

from alps.errors import UsageError
from alps.llm.secrets import is_secret

_NEEDED = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|TERM|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|TMP|TEMP|XDG_\w+"
    r"|PYTHON\w*|VIRTUAL_ENV|CONDA_\w+|NODE_PATH|JAVA_HOME|LD_LIBRARY_PATH|DYLD_\w+|CUDA_\w+|NVIDIA_\w+|OMP_\w+|MKL_\w+"
    r"|SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE"
)


def program_environment(passed: Sequence[str]) -> dict[str, str]:
    """Return the environment of a program: what it needs, less what is secret, and what the user
    passes by name.

    Raises:
        UsageError: If one of the names is not set.
    """
    if missing := [name for name in passed if name not in os.environ]:
        raise UsageError(f"env={','.join(passed)}: {missing[0]} is not set in the environment")
    needed = {
        name: text
        for name, text in os.environ.items()
        if _NEEDED.fullmatch(name) and not is_secret(name, text)
    }
    unbuffered = {"PYTHONUNBUFFERED": "1"}  # else what a Python program prints stays in its buffer
    return {**unbuffered, **needed, **{name: os.environ[name] for name in passed}}
