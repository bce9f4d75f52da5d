"""Faults planted into the engine, each by itself: the simulator has to find every one of them."""

from tools.simfaults import engine, logs, loop, state  # noqa: F401 - they add to MUTANTS
from tools.simfaults.registry import MUTANTS

__all__ = ["MUTANTS"]
