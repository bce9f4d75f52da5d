"""The engine: decode → route → evaluate on Spark Structured Streaming. Read `pipeline.py` first."""
