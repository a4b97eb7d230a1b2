"""Data sets without a run: an audit without a model, and retrieval pools in the release layout."""

from alps.extension import Extension

EXTENSION = Extension(
    "datasets", commands={"data": "alps.ext.datasets.commands:data"}, heading="Data"
)
