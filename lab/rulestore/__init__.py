"""Rules in a database: analysts edit rows, changes are captured into the control log, the engine's answers come back."""
