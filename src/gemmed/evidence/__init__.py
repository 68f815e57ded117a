"""What distances and readings say of samples: evidence in nats, checks of it, p-values."""
