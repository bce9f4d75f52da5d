"""Logs: where events, control messages, alerts, acknowledgements, dead letters and statistics live."""
