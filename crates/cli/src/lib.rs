//! The tree-agent command line.
