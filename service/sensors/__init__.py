"""One sensor's life: arrival checks, transforms, detector, history, wording; and a partition of sensors."""
