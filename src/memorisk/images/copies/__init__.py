"""Copies of images. `duplicates` finds equal pixels and the most similar thumbnails of a set.

`near_copies` finds nearly equal images and equal ones in another orientation; `details` confirms them. `alignment`
lays a copy on its source by the transform between them.
"""
