"""The engine as a loop that knows nothing of Spark: cut, read, decode, route, evaluate, deliver, save.

In: a job, which names logs, checkpoint and settings. Out: lines in the logs, and a checkpoint from which any attempt continues.
Uses `records`, `checkpoint` and `windows`. Whoever runs it says when: a task of Spark's, a thread, the simulator.
"""
