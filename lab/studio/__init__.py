"""A stream, an engine and their logs in one process or one view: for demonstrations, drills and notebooks."""
