"""Programs as StableHLO text, which XLA compiles: sizes that are not known are `?`, what is captured is in the text."""
