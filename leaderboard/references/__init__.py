"""Reference rows: figures of systems that others ran, recomputed from public files or reported."""
