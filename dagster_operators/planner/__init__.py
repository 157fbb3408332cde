"""From the graph to stages: what is chained, what each stage reads and writes, and how to explain it."""
