"""Pixel input: manifests, the image store, splits and checks. Start with `manifest`, `store` and `sources.registry`.

Imports run one way: `readers` decodes files, `layouts` finds images, labels and groups on a disk, `published` adds
official data sets by name, `sources` reads whatever the user names. `copies` finds equal and near images;
`alterations` makes changed ones.
"""
