"""What pipelines can be built of, one registration for each kind, whether it comes with this package or with another."""
