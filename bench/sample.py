"""The AlpsBench sample, which is no part of the repository: README.md says what it is."""

import os
from pathlib import Path

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "alpsbench_sample"


def sample_folder() -> Path | None:
    """Return the folder that `ALPS_SAMPLE` names, else the one beside the checkout.

    None where it is not there.
    """
    folder = Path(os.environ.get("ALPS_SAMPLE") or BESIDE)
    return folder if (folder / "benchmark_data").is_dir() else None
