"""Flink's own examples as programs of data sets, over the data of the flights job.

:mod:`~jobs.data_sets.words` counts words, :mod:`~jobs.data_sets.kinds_of_weather` is k-means, and :mod:`~jobs.data_sets.routes`
has page rank, connected components and the triangles of a graph. :mod:`~jobs.data_sets.job` has all of them in one pipeline. Each
is a function from data sets to a data set, so that it runs over rows at hand, too.
"""
