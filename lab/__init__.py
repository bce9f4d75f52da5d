"""Rules that change at run time, evaluated on event streams."""
