"""The command line: arguments to the same functions that Python calls.

Start with `main`, which builds the program. `settings` merges flags, YAML and defaults, `urls` brings over what
URLs name, `show` holds what is printed of each result. The other modules hold the verbs.
"""
