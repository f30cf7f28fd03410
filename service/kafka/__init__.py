"""The Kafka client behind our own seam: nothing else in the service imports it.

The client, kafka-python, is pinned: some of its faults are guarded against by private names (``guards``).
"""
