"""An engine that runs, or a replay, as a person at a terminal starts, changes and monitors it."""
