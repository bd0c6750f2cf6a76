//! `tree-agent`: everything is in the library.

use std::process::ExitCode;

/// Role calls and events are many small allocations on several threads. With the C library's allocator, a third of the
/// processor time of a planner in `dev` went to it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    tree_agent_cli::main()
}
