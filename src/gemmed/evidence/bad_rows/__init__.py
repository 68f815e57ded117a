"""Is the measurement of a row bad? Statistics of rows, one rule that turns them into nats.

Columns become normal scores. Statistics of a row are computed without the row itself
(``row_statistics``). They are compared with those of its counterparts: rows that have lost the
relation between their values (also there). One monotone rule turns them into a log Bayes factor and
learns the share of bad rows (``belief``). Dense clusters of rows are found separately (``groups``).
``judged`` combines both, with the check that can overrule them.
"""
