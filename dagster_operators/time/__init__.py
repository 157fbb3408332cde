"""Event time: microseconds since 1970 in UTC, watermarks, and their general form, frontiers."""
