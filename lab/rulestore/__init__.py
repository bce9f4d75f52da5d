"""Rules in a database: analysts edit rows, a capture copies the changes to the control log, and writes the engine's answers back."""
