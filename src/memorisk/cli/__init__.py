"""The command line: a file a verb, its arguments and what the terminal shows of its result.

Start with `main`, which builds the program. `settings` merges flags, YAML and defaults, `plan` prints dry runs, and
`show` holds what is printed of each result.
"""
