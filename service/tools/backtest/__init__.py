"""A configuration tried on readings that are there already: what it would have raised, and when."""
