"""Plans of data sets carried out by an engine's workers: fragments, exchanges in files, tasks, and rounds of iterations.

An exchange is written down before it is read, as in Flink's batch exchange mode.
"""
