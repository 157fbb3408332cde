"""Spark SQL over Arrow batches in a task, where no engine is: as much of it as means the same here."""
