"""Where images come from: folders, tables, arrays, DICOM trees, published sets. Start with `registry`."""
