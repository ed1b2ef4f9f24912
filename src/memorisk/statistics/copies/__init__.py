"""Copies among generated images. Start with `reversed_queries`; a pass rests on `singled_out` and `planted_copies`."""
