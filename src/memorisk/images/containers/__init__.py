"""What a file holds besides its image or its tensors: text, previews, further frames, data after the end.

A viewer shows pixels, and so does an audit. Whatever else lies in a file goes out with it unseen. Each module here
parses one format completely and strictly, names the first thing that is no pixel, and needs nothing but Python's
standard library, because the gate on releases runs where no image library is installed. A format without a module here
cannot be checked, and is named as such; ``memorisk release`` writes any set anew as plain PNG.

Start with `surplus` in ``checking``.
"""
