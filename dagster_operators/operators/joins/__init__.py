"""Joins: in windows, over intervals of event time, and with tables that change slowly."""
