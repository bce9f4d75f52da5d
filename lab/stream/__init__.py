"""Generates seeded events, and plays them at the pace of the real clock."""
