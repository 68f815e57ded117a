"""The maximum-entropy problem of docs/model.md and the steps that solve parts of it."""
