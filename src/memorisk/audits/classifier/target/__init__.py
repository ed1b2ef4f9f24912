"""The very model that is to be released (``--target``): `attacks` on it, and the `order` of its outputs.

Start with `audit_target` in `attacks`.
"""
