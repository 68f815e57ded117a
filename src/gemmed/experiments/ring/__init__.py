"""The paper's simulation: Gaussian classes with anomalies on a ring around them."""
