"""Names under which others have what lives in `symbolic/`: `scope`."""
