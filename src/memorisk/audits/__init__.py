"""Questions that users ask, one package each; the only packages in which numbers meet images and networks.

Besides the packages there are: `runner` (the frame of every audit), `rendering` (from a saved result to its page),
`pseudonyms` (hashed ids, and the list of files that an audit read), `compared_images` (pixels that an audit compared),
`pair_plan` (the cost of a search over all pairs) and `tracker_libraries`.
"""
