"""What Programs compute from constants: what is constant, what of it is kept between calls, and the cache of it."""
