"""Rules on graphs of array operations, whatever the graph: a Program or the graph of a parameter."""
