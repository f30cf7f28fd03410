"""The service's commands, a module each with ``add_arguments(parser)`` and ``run(arguments) -> int``."""
