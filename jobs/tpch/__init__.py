"""Queries of TPC-H as views over tables that change: orders and their lines come, are corrected and go.

:mod:`~jobs.tpch.generator` makes the changes, :mod:`~jobs.tpch.queries` has the queries, :mod:`~jobs.tpch.reference` what they
come to, :mod:`~jobs.tpch.run` runs them. See ``docs/tpch.md``.
"""
