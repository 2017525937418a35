//! The `pi` command with switches in its guards: what the attack suite attacks.

use std::process::ExitCode;

fn main() -> ExitCode {
    pijs_cli::main()
}
