"""Programs that run in environments of their own: nothing of `alps` can be imported there.

`serve.py` is started by the environment's Python, beside the adapter that it is told.
"""
