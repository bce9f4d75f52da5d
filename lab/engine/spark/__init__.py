"""The engine as one streaming query: `pipeline.start` is the way in.

In: a Spark session, logs, a checkpoint, settings. Out: a running engine that Spark supervises and restarts.
Nothing else in the engine imports it or Spark.
"""
