"""Bytes to pixels: start with `decoding`. `headers` reads sizes, `formats` knows the kinds of files."""
