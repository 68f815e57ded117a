"""Used by all packages: errors, types, files, progress, threads, solvers."""
