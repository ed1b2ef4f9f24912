"""What a file holds besides its image or its tensors: text, previews, further frames, data after the end.

A viewer and an audit show pixels only; the rest goes out with the file unseen. Each parser reads one format
completely and strictly, and names the first thing that is no pixel. It needs only Python's standard library,
because the gate on releases runs without image libraries. Other formats are named as unchecked. Start with
`surplus`.
"""
