"""Other ways to evaluate the same rules on the same payments, side by side: `python -m tools.peers`, `docs/peers.md`."""
