"""Real recordings: spoken digits with injected faults, heart sounds of poor quality."""
