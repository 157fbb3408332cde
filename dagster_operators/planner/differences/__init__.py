"""Where Sail gives something else than Spark: what is known of it, and its refusal when a pipeline is planned."""
