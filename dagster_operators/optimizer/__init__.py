"""Choosing by cost how a program of data sets runs: exchanges, local strategies and drivers of its operators.

The optimizer knows nothing of an engine, a pipeline or a file. It takes operators with the ways of running them
(:mod:`~dagster_operators.optimizer.descriptors`), with estimates of their rows, and with the fields that they hand on. It gives a
:class:`~dagster_operators.optimizer.candidates.Candidate` for each sink, the cheapest that meets all requirements.

The model is that of Flink's batch optimizer, which goes back to Selinger and to Stratosphere: properties of data that an
operator requires, and those that it produces, are values. Candidates are enumerated from the sources on, and those are kept
that are cheapest for a property that an operator behind them is interested in.

Sources: A. Alexandrov et al., "The Stratosphere platform for big data analytics", VLDB Journal 23 (2014); Apache Flink 1.20,
module flink-optimizer, whose plans the tests compare with.
"""
