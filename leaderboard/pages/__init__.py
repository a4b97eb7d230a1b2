"""Pages of the site: one concept a module, each a function from the site's content to files."""
