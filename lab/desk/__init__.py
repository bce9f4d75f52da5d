"""The desk: one object, a `World`, that answers why a rule alerted, why it did not, whether it would, and what rules are worth."""
