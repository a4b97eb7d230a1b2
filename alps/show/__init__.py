"""Tables, pages and charts of runs, for people."""
