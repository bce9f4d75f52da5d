"""The windows of a task: evaluated in shared memory, saved in state files.

In: columns of events by route, and the ledger with the rules. Out: alerts as lines, counts, and a state file for each epoch.
Uses `compiled`, `records` and `checkpoint`; whatever comes in is in log order, so it knows neither cuts nor logs.
"""
