//! Built-in tools behind one registry, filtered by context.
