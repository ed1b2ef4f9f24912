"""Sets written anew for release: `clean_set` writes the images, `clean_manifest` the table, `listing` what is there."""
