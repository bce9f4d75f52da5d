"""Simpler methods that the lessons compare with the engine, and the limits of each."""
