"""The loop over events and windows, as plain functions on arrays that Numba compiles.

In: a batch of events, a route's rules as numbers, the arrays of its store. Out: the alerts' numbers, and the arrays changed.
Imports nothing of the engine, knows no files, schemas or tasks; a browser runs the same functions (`lab.page`).
"""
