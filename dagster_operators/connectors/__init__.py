"""Sources: what there is to read, cut into slices that every attempt of an epoch reads alike."""
