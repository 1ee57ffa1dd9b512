"""What users call on functions, Programs and circuits: contexts, jit, loops and branches, questions."""
