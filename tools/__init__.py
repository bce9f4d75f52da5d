"""Programs for those who change the kit: measurements, other engines, hostile input, planted faults, real kills."""
