//! Where a prompt comes from when nobody sits in front of a terminal: what is piped in, as in pi.

use crate::args::{Mode, RunArgs};
use crate::environment::Environment;
use crate::failure::{Failure, Result};
use std::io::Read;

/// Longest prompt that is read from the standard input.
const LONGEST_PROMPT: u64 = 16 << 20;

/// Whether one prompt is answered: when that is asked for, and where nobody sits in front of a terminal, as in pi.
pub(crate) fn answers_one(environment: &Environment, args: &RunArgs) -> bool {
    args.print || args.mode == Mode::Json || !environment.stdin_is_terminal || !environment.stdout_is_terminal
}

/// What is asked: what was piped in, and behind it what was typed.
pub(crate) async fn prompt(environment: &Environment, args: &RunArgs) -> Result<String> {
    let typed = args.prompt.join(" ");
    if environment.stdin_is_terminal {
        return Ok(typed);
    }
    let read = tokio::task::spawn_blocking(|| {
        let mut piped = Vec::new();
        std::io::stdin().lock().take(LONGEST_PROMPT + 1).read_to_end(&mut piped).map(|_| piped)
    });
    let failed = |error: std::io::Error| Failure::failed(format!("the standard input cannot be read: {error}"));
    let piped = read.await.map_err(|error| failed(error.into()))?.map_err(failed)?;
    if piped.len() as u64 > LONGEST_PROMPT {
        return Err(Failure::failed("the standard input is longer than a prompt may be").help("name a file instead"));
    }
    let prompt = format!("{}{typed}", String::from_utf8_lossy(&piped).trim());
    if prompt.is_empty() && !args.print {
        return Err(Failure::usage("input and output are no terminal").help(
            "answer one prompt with: pi -p 'PROMPT' --model PROVIDER/ID\n        or drive a session with: pi --mode rpc",
        ));
    }
    Ok(prompt)
}
