"""Files that hold images, one module per kind: raster, TIFF, DICOM, NIfTI, arrays, records, shards.

Start with `read_image` in `registry`, which recognises the kinds by their first bytes; `greys` maps values to 8 or 16
bits.
"""
