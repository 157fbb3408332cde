"""Types and schemas, between Spark's DDL and JSON and Arrow; no Spark."""
