"""Operators in the terms of NebulaStream: ``setup``, ``open``, ``execute``, ``close``, ``terminate``, and handlers."""
