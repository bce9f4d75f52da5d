"""Other ways to evaluate the same rules on the same payments, side by side: `python -m tests.peers`, `docs/peers.md`."""
