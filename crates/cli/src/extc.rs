//! The `extc` command; see `pijs_extc::cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pijs_cli::extc()
}
