"""What audits of generated images share: sets of images, and what a generator knows of them."""
