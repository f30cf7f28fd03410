"""The worker: its cycle, the log it reads and commits to, snapshots, watchdog, start and stop."""
