"""Server of an adapter in this folder over lines of JSON: `python serve.py MODULE:CLASS`."""

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def main(name: str) -> None:
    """Answer every request of stdin."""
    # What libraries print must not be read as an answer.
    answers, sys.stdout = sys.stdout, sys.stderr
    # Both endpoints are on this machine.
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
    sys.path.insert(0, str(Path(__file__).parent))
    module, _, kind = name.partition(":")
    system = getattr(import_module(module), kind)()
    for line in sys.stdin:
        # Adapters read fields of objects as attributes.
        request = vars(json.loads(line, object_hook=lambda fields: SimpleNamespace(**fields)))
        number, method = request.pop("id"), request.pop("method")
        answer: dict[str, Any]
        try:
            if method == "open":
                system.open(SimpleNamespace(**request))
                answer = {"result": {"persistent": system.persistent, "can": ["memories"]}}
            else:
                answer = {"result": getattr(system, method)(**request)}
        # An adapter's fault is one failed call; a program that ends loses all its users.
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"id": number, **answer}), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
