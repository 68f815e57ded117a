"""Maximum entropy discrimination with Gaussian classes: the discriminant is a likelihood ratio."""
