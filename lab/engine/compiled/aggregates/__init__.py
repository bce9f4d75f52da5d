"""Running aggregates: how each follows a window whose two ends move.

    form          its lanes, int64s, after `start`        an event enters or leaves
    count         n                                       n ± 1
    count since   n, reset                                the same, for events after the one at which the rule last fired
    sum           n, high, low                            sum ± value; the sum is high · 2³² + low and never overflows
    mean          n, high, low                            the same
    squares       n, high, low, 4 limbs                   the sum of the squares ± value² as well, 32 bits a limb
    distinct      n                                       a table says how many events have a value; n ± 1 at 0 ↔ 1
    steps         an event + 1 for each      how the events go on from one step to the next; when the first leaves, the sequence is gone
    queue         head, tail, known                       a queue of the events that are not yet beaten by a newer one

All lanes are exact: a value that leaves is subtracted to the last bit. `lab.model.aggregates` says which aggregate is kept in
which form; `forms` has the table of forms, and what they share. An aggregate in a form of its own is a file here and a row there.
"""
