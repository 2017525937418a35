//! The `extc` command; see [`pijs_cli::extc`].

use std::process::ExitCode;

fn main() -> ExitCode {
    pijs_cli::extc()
}
