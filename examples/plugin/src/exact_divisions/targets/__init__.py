"""Target files of our own machines."""
