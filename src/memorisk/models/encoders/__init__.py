"""Networks that give features of images: `encoders` names them, `networks` builds them."""
