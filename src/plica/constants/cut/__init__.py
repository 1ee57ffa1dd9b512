"""Which constant values are kept between calls, and the Program split there."""
