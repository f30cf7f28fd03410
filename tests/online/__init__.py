"""A package, so that its helpers are not mistaken for the benchmark of the same name."""
