"""Human labels: a local page to give them, and their export."""
