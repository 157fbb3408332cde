"""Event operators over the flights: levels and alarms in Python, a display in C, wired in ``dataflow.yml``."""
