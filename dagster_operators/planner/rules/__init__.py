"""The optimizer's rules, one in a module, and the order in which they are applied."""
