"""What the service compiles. Imported where it is first used: numba takes a second and a hundred megabytes, which
programs that infer nothing should not pay."""
