"""Copies of images: equal ones (`duplicates`), nearly equal ones (`near_copies`), planted ones (`planting`)."""
