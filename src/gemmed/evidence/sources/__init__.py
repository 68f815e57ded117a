"""Sources of evidence, one a file: what speaks against a sample, in nats."""
