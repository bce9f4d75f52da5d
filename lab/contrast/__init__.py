"""What the lessons compare the engine with: ways that are simpler, and where each of them ends."""
