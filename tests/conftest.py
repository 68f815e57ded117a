"""What all tests need of the process they run in."""

import signal

# A shell starts background jobs with interrupts ignored, and every program they start inherits
# that: tests of Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
