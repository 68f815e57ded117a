"""What every room uses: errors, types, whole-file writes, progress, threads, small solvers."""
