"""Finds, downloads, starts and checks Java, Spark, Kafka and PostgreSQL on this computer."""
