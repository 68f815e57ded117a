"""What all tests need of the process they run in."""

import os
import signal

# One thread for each test process and the programs it starts, unless the caller says otherwise.
# Idle BLAS threads keep a processor busy: on two processors they took ten times the work itself.
# This must happen before NumPy is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell starts background jobs with interrupts ignored, and every program they start inherits
# that: tests of Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
