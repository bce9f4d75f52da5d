"""What people run: a finished file replayed, an engine on live logs, a room of widgets' streams, a demonstration."""
