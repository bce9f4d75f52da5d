"""The command `lab`."""
