"""What survives a crash: the folder of an engine, and who may write in it.

In: settings, rules after a cut, the marks of cuts. Out: the same, for the next process; an error for a process
that comes too early or too late. Imports nothing of the engine. The state files are in the same folder; the room `windows` writes them.
"""
