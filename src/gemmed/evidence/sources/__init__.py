"""Sources of evidence: what speaks against a sample, in nats.

A source is a function from what ``evidence.measured`` knows of the samples to nats, shape
(n_samples,), zero where it says nothing. To add one: a file here, what it looks at as a field of
``Measured`` (filled in ``measure``, and in passes over blocks), its nats as a field of ``Evidence``
in ``evidence.all_sources``, which takes the largest. ``evidence.kernel_and_veto`` drops what
predictions contradict.
"""
