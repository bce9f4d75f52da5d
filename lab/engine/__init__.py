"""The engine: rules that change at run time, evaluated on event streams. Its rooms are in docs/architecture.md; read `loop/epochs.py` first."""
