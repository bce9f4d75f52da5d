"""Finished events, whatever format they are in: the records of files, folders and topics, and a schema proposed for them."""
