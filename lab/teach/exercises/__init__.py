"""How each lesson's exercises are judged: what is right, typical mistakes, hints. Spoilers."""
