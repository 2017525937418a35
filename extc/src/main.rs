//! The `extc` command; see `pijs_extc::cli`.

use std::io;
use std::process::ExitCode;

fn main() -> ExitCode {
    // A sealed build is this program once more; it never comes back from here.
    pijs_extc::worker::enter();
    match pijs_extc::cli::run(std::env::args_os(), &mut io::stdout().lock(), &mut io::stderr()) {
        Ok(code) => ExitCode::from(code),
        // Nobody is left to tell: the reader of our output is gone.
        Err(_) => ExitCode::FAILURE,
    }
}
