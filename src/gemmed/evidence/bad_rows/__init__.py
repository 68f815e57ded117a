"""Is the measurement of a row bad? Statistics of rows, one rule that turns them into nats.

Columns become normal scores. Statistics of a row, each without the row itself, are compared with
those of its counterparts: rows that have lost the relation between their values
(``row_statistics``). One monotone rule turns them into a log Bayes factor and learns the share of
bad rows (``belief``). Rows that lie together are judged as one (``groups``). ``judged`` puts it
together, with the check that can overrule it.
"""
