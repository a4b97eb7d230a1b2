"""Published scoring: figures for comparison with those of the paper."""

from alps.extension import Extension

EXTENSION = Extension(
    "published",
    needs=("adapters",),
    scorings={"authors-v1": "alps.ext.published.authors_v1:rescored"},
)
