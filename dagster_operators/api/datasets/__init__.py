"""Programs of data sets, written as with Flink's DataSet API, in Python's spelling."""
