"""Files that hold images, a module a kind: raster, TIFF, DICOM, NIfTI, arrays, shards. Start with `registry`."""
