"""The maximum-entropy problem of wrong labels and bad measurements, and its fit."""
