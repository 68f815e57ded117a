"""The robustness suite: tables with injected faults, many methods, three versions."""
