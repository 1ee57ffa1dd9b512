"""A small HTTP service that answers questions about rows of data from a native file: docs/serving.md."""
