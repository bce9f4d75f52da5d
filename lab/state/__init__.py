"""What an engine remembers, read from outside, and its parallelism changed."""
