"""Programs as StableHLO text, which XLA compiles: symbolic sizes are `?`, captured constants are in the text."""
