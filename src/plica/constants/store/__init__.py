"""Values folded from constants, kept between calls: the cache, and the components that make them."""
