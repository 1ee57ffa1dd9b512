"""The functions that users call on functions, Programs and circuits: contexts, jit, loops, branches and queries."""
