"""What pipelines are built with, by family: each logical operator next to its lowering."""
