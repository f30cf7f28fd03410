"""What the library does from the command line.

One command a module: ``add_arguments(parser)`` describes its arguments and imports nothing heavy, ``run(arguments)``
does the work and returns the exit code. What is wrong with the user's input is raised as ValueError or OSError.
"""
