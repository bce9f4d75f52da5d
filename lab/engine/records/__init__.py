"""Records of the logs, and the columns they become.

In: bytes of records at numbered positions of files and topics. Out: typed columns in log order, and dead letters.
Imports nothing of the engine, and knows neither rules nor checkpoints.
"""
