"""Real sensors, some of which fail: vehicles, a water circuit, sound with broken channels."""
