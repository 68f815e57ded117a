"""Evidence against samples, in nats; checks of it; p-values."""
