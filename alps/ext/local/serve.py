"""Serve a model on loopback for as long as the standard input is open; runs apart from `alps`.

    python -I serve.py FILE.gguf NAME CONTEXT THREADS

Once the model is loaded, the address stands on the standard output. The standard input is a pipe
whose other end only `alps` holds: it ends when `alps` does, however that happens, and so does this.
"""

import os
import sys
import threading

_SILENCE = 5  # seconds after which a request that has no token yet is told that it is not forgotten
_BATCH = 256  # tokens of a prompt between two signs of progress


def _end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


def main() -> None:
    """Load the model, tell the address, and serve."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import xllamacpp

    path, name, context, threads = sys.argv[1:]
    params = xllamacpp.CommonParams()
    params.model.path, params.model_alias = path, [name]
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.n_ctx, params.n_parallel, params.n_batch = int(context), 1, _BATCH
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(threads)
    params.ui, params.sse_ping_interval, params.verbosity = False, _SILENCE, 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
