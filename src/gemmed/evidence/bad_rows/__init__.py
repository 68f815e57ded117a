"""Is the measurement of a row bad? Statistics of rows, one rule that turns them into nats.

Columns become normal scores (``columns``). Statistics of a row, each without the row itself
(``row_statistics``), are compared with those of its counterparts, rows that have lost the relation
between their values (also there); one monotone rule turns them into a log Bayes factor and
learns the share of bad rows (``belief``). Many rows in one tight place are found apart
(``dense_place``). ``judged`` puts it together, with the check that can overrule it.
"""
