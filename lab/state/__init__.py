"""Inspects and rescales the state of an engine."""
