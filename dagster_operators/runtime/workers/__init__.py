"""Batch operators: Python over Arrow record batches, in Spark workers or in a test harness."""
