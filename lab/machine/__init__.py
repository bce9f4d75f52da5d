"""Java, Spark and Kafka on this computer: found, fetched, started, examined."""
