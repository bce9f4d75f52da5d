"""Seeded events: made, and played at the pace of the real clock."""
