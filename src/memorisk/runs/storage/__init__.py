"""Folders at URLs: start with `storage`. `mirror` fetches what is read, `pushing` stores what was written."""
