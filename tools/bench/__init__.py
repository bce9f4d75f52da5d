"""Benchmarks: `python -m tools.bench`, or `make bench`."""
