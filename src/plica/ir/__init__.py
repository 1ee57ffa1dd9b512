"""The intermediate representation: sizes, types, Programs, their text, verifier and interpreter."""
