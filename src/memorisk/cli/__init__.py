"""The command line: arguments to the same functions that Python calls.

Start with `program`, which builds the program; `main` runs it and gives exit codes. `settings` merges flags, YAML and
defaults, `urls` copies inputs from URLs, `show` holds what is printed of each result. The other modules hold the verbs.
"""
