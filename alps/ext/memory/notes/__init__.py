"""Notes in a folder of files: `memory=files`, which a model keeps, and `memory=notes`, without."""
