"""Rules over events that are already there: replays, backtests, and the window behind an alert."""
