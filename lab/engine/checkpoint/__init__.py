"""What survives a crash: the folder of an engine, and who may write in it.

In: settings, rules after a cut, the marks of cuts. Out: the same, to whoever comes next; an error for whoever came too early or late.
Imports nothing of the engine. The state files are in the same folder; the room `windows` writes them.
"""
