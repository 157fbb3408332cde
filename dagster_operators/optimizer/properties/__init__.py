"""Properties of data sets, and requirements of them: how rows lie over the parts, and in which order within each."""
