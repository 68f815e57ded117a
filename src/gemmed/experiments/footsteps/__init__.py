"""The paper's footstep experiment on simulated recordings: three tables and their pictures."""
