"""Check of an installation: versions, keys, cache folder, links and samples."""

from alps.extension import EVERYDAY, Extension

EXTENSION = Extension(
    "doctor", heading=EVERYDAY, commands={"doctor": "alps.ext.doctor.commands:doctor"}
)
