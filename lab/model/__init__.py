"""What flows and what is computed: schemas, rules, alerts, key-groups, and the reference. No Spark, no widgets."""
