"""What the readings of single sensors say of the sensors: statistics, and nats for "broken"."""
