"""The Programs of a circuit in a native file: with their weights folded, and with the fallback of each."""
