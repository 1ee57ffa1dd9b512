"""Pictures of circuits and of samples, drawn by matplotlib without its global state."""
