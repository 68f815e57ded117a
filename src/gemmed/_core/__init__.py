"""Used by all rooms: errors, types, files, progress, threads, solvers."""
