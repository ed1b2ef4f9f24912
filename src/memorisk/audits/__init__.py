"""One module per question a user asks; the only room where numbers meet images and networks."""
