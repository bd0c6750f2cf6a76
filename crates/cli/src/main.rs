//! `tree-agent`: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    tree_agent_cli::main()
}
