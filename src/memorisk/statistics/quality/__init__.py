"""Quality of generated images: FID, KID, MiFID, precision and recall, IRS. Start with `figures`."""
