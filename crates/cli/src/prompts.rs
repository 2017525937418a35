//! The prompts of the command line: piped input, then files (`@notes.md`, `@shot.png`), then the messages.
//!
//! As in pi, piped input, files and the first message are one prompt; every further message is a separate prompt.

use crate::args::{Mode, RunArgs};
use base64::Engine as _;
use pijs_llm::message::{Block, Content};
use pijs_runtime::Environment;
use pijs_runtime::{Result, UserError};
use pijs_tools::image_type;
use std::io::Read;

/// Maximum size in bytes of a prompt on standard input.
const LONGEST_PROMPT: u64 = 16 << 20;

/// The prompts of a command line, in their order.
#[derive(Debug, Default)]
pub(crate) struct Prompts {
    pub(crate) prompts: Vec<Content>,
}

impl Prompts {
    /// Returns a single prompt.
    pub(crate) fn once(prompt: &str) -> Self {
        Self { prompts: vec![prompt.into()] }
    }
}

/// Returns whether to answer the prompts of the command line and exit: on request, or if no user is at a terminal, as in pi.
pub(crate) fn answers_one(environment: &Environment, args: &RunArgs) -> bool {
    args.print || args.mode == Mode::Json || !environment.stdin_is_terminal || !environment.stdout_is_terminal
}

/// Returns the prompts of a run without a user, including piped input.
pub(crate) async fn piped(environment: &Environment, args: &RunArgs) -> Result<Prompts> {
    if environment.stdin_is_terminal {
        return typed(environment, args, String::new());
    }
    let read = tokio::task::spawn_blocking(|| {
        let mut piped = Vec::new();
        std::io::stdin().lock().take(LONGEST_PROMPT + 1).read_to_end(&mut piped).map(|_| piped)
    });
    let failed = |error: std::io::Error| UserError::failed(format!("standard input cannot be read: {error}"));
    let piped = read.await.map_err(|error| failed(error.into()))?.map_err(failed)?;
    if piped.len() as u64 > LONGEST_PROMPT {
        return Err(UserError::failed("standard input is too long for a prompt").help("name a file instead"));
    }
    let prompts = typed(environment, args, String::from_utf8_lossy(&piped).trim().to_owned())?;
    if prompts.prompts.is_empty() && !args.print {
        return Err(UserError::usage("input and output are not a terminal").help(
            "run one prompt with: pi -p 'PROMPT' --model PROVIDER/ID\n        or drive a session with: pi --mode rpc",
        ));
    }
    Ok(prompts)
}

/// Appends files and messages of the command line to `before`.
pub(crate) fn typed(environment: &Environment, args: &RunArgs, before: String) -> Result<Prompts> {
    let (mut first, mut images) = (before, Vec::new());
    for file in args.files() {
        attach(environment, file, &mut first, &mut images)?;
    }
    let mut messages = args.messages();
    first.push_str(messages.next().unwrap_or_default());
    let mut prompts = Vec::new();
    if !images.is_empty() {
        let text = std::iter::once(Block::text(first));
        prompts.push(text.chain(images).collect::<Vec<Block>>().into());
    } else if !first.is_empty() {
        prompts.push(Content::Text(first));
    }
    prompts.extend(messages.map(Content::from));
    Ok(Prompts { prompts })
}

/// Adds a file to the prompt: its text, or its image and a marker. An empty file adds nothing.
fn attach(environment: &Environment, file: &str, text: &mut String, images: &mut Vec<Block>) -> Result<()> {
    let path = environment.path(file);
    let mut bytes = Vec::new();
    match environment.open_named(&path).and_then(|mut file| file.read_to_end(&mut bytes)) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(UserError::failed(format!("File not found: {}", path.display())));
        }
        Err(error) => return Err(UserError::failed(format!("Could not read file {}: {error}", path.display()))),
    }
    if bytes.is_empty() {
        return Ok(());
    }
    let name = path.display();
    match image_type(&bytes) {
        Some(mime_type) => {
            let data = base64::engine::general_purpose::STANDARD.encode(bytes);
            images.push(Block::Image { data, mime_type: mime_type.to_owned() });
            text.push_str(&format!("<file name=\"{name}\"></file>\n"));
        }
        None => {
            let content = String::from_utf8_lossy(&bytes);
            let content = content.strip_prefix('\u{feff}').unwrap_or(&content);
            text.push_str(&format!("<file name=\"{name}\">\n{content}\n</file>\n"));
        }
    }
    Ok(())
}
