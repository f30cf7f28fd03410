"""The HTTP API: readings in, events and posteriors out, probes and metrics. The same in front of either worker."""
