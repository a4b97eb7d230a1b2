"""The subcommands of `alps`, by kind; `alps.cli` lists them."""
