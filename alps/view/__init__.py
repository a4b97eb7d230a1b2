"""Page on which all records of runs are searched, filtered and read side by side."""
