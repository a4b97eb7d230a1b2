"""Import of result files of other benchmarks and harnesses, from the user's own copy."""

from alps.extension import Extension

EXTENSION = Extension(
    "importers",
    commands={"import": "alps.ext.importers.commands:import_results"},
    heading="Data",
)
