"""Many Delta tables, one commit: a ledger, manifests, two-phase commit, recovery. No Spark.

``Coordinator`` is what the runtime calls. The protocol (``protocol.py``, ``commit.py``, ``repair.py``) is written as generators
that yield effects, ``recovery.py`` decides what to do next as pure functions, and ``world.py`` performs the effects on real
storage.
"""
