"""Values folded from constants, kept between calls: the cache, the components that make them, and threads."""
