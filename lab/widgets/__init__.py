"""Widgets to tune rules and watch alerts: each stands alone, on a running engine or on recorded data; ControlRoom has them all."""
