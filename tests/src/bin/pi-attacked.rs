//! The `pi` command with switches in its guards, for the attack suite.

use std::process::ExitCode;

fn main() -> ExitCode {
    pijs_cli::main()
}
