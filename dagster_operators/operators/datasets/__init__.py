"""Programs of data sets at work: drivers, which do an operator's work on the rows of a part, and the tasks that run them.

The model is that of Flink's batch runtime (Apache Flink 1.20, ``flink-runtime``, package ``operators``): a driver per strategy,
drivers that are chained behind another one, and a life cycle that ends the same way whatever fails.
"""
