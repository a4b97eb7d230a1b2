"""The checks of a submission, one concept a module; each adds what it finds to `Findings`."""
