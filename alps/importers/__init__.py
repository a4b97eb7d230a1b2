"""Import of result files of other benchmarks and harnesses, from the user's own copy."""
