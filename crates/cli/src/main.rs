//! The `pi` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    pijs_cli::main()
}
