"""Export of runs to tables, and to the tools that people keep experiments in."""
