"""Reading and writing the public release layout, and the project's own samples."""
