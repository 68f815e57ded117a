"""Simulated footsteps: humans alone or leading an animal, four sensors that fail at times."""
