"""What is looked for in a syntax tree, a rule a file. ``rule.py`` is what they share: scopes, names, and how to flag."""
