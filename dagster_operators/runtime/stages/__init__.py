"""One attempt at a stage: what it reads, runs, stages, keeps and counts."""
