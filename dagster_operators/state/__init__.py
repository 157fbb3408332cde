"""Operator state between epochs: tables of runs, looked up and changed by the workers, merged within the transaction."""
