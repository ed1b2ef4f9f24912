"""Quality of generated images, each figure with an interval. Start with `figures`, which all share.

`feature_distances` holds FID, KID and MiFID, `manifold` precision and recall, `retrieval_score` IRS,
`utility` what a classifier learns from synthetic images.
"""
