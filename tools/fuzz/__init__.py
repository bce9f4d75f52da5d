"""Hostile input by the million: `make fuzz`. What it found is in `corpus/`, and tried again by every run of the tests."""
