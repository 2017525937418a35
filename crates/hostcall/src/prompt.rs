//! Questions to a person.
//!
//! The terminal, an RPC client or an embedder implements [`Prompter`]. Questions are asked one
//! at a time; when an answer settles a later one, that one is not asked.

use crate::connector::BoxFuture;
use crate::loss::ExpectedLoss;
use pijs_protocol::manifest::{CapabilityRequest, Scope};
use pijs_protocol::{Capability, ExtensionId, guard};

/// Answers questions about capabilities.
pub trait Prompter: Send + Sync {
    /// Asks. An implementation that cannot reach a person answers [`Answer::NoPerson`].
    fn ask(&self, question: Question) -> BoxFuture<'static, Answer>;
}

/// One question.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Who asks.
    pub extension: ExtensionId,
    /// For what.
    pub capability: Capability,
    /// The capability in plain words, *run programs*.
    pub what: String,
    /// What exactly, as it will run: the path, the program with all arguments, the host. Free of
    /// control characters, cut to a size a terminal can show.
    pub subject: String,
    /// Things worth knowing: combinations, interpreters, files that run later.
    pub warnings: Vec<String>,
    /// All that the extension asks for and does not hold, in words, each a line; empty where nobody is asked about all of it.
    pub package: Vec<String>,
    /// Holds the requests behind those words: a yes is about these, whatever the extension asks for by then.
    pub(crate) wanted: Vec<CapabilityRequest>,
    /// Expected loss of both choices.
    pub loss: ExpectedLoss,
    /// Whether [`Answer::AllowAlways`] would hold beyond the session. A prompt offers it only then.
    pub can_be_kept: bool,
    /// How often this extension was refused in a row; from three on, a prompt offers [`Answer::Mute`].
    pub refused: u32,
}

impl Question {
    /// A question of an extension about nothing yet.
    pub fn about(extension: ExtensionId, loss: ExpectedLoss) -> Self {
        Self {
            extension,
            capability: "".into(),
            what: String::new(),
            subject: String::new(),
            warnings: Vec::new(),
            package: Vec::new(),
            wanted: Vec::new(),
            loss,
            can_be_kept: false,
            refused: 0,
        }
    }

    /// Who asks, as it can be shown: an extension may be named by its file, and a file's name can hold anything.
    pub fn who(&self) -> String {
        if guard!(PromptName) { shown(self.extension.as_str(), 400) } else { self.extension.to_string() }
    }
}

/// Keeps answers that hold beyond a session.
pub trait Memory: Send + Sync {
    /// Writes down what a person answered about an extension.
    fn remember(&self, extension: &ExtensionId, remembered: Remembered);
}

/// An answer that holds beyond a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// The capability.
    pub capability: Capability,
    /// Hostcall methods that may use it; absent means any.
    pub methods: Option<Vec<String>>,
    /// Where; absent means anywhere.
    pub scope: Option<Scope>,
    /// Yes, or never.
    pub allowed: bool,
}

/// A person's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// No, this time; while the extension is being loaded, to the same question also the next times.
    Deny,
    /// No, and do not ask again; kept beyond the session where there is a [`Memory`].
    DenyAlways,
    /// No, and do not ask anything about this extension any more in this session.
    Mute,
    /// This very call; while the extension is being loaded, also calls that the same question is about.
    AllowOnce,
    /// This subject (path, program, host, name) for the rest of the session.
    AllowSubject,
    /// This subject, also in later sessions where there is a [`Memory`].
    AllowAlways,
    /// The whole capability for the rest of the session.
    AllowCapability,
    /// All that the extension asks for ([`Question::package`]) for the rest of the session.
    AllowPackage,
    /// All that the extension asks for, also in later sessions where there is a [`Memory`].
    AllowPackageAlways,
    /// Nobody is there to ask.
    NoPerson,
}

/// Makes text safe to show in a prompt: no control, bidirectional or invisible characters, at
/// most `limit` characters with a note of how many were cut. Nothing is cut where the note is as long.
pub fn shown(text: &str, limit: usize) -> String {
    let limit = if fits(text, limit) { usize::MAX } else { limit };
    let mut out = String::with_capacity(text.len().min(limit));
    let mut characters = text.chars();
    for character in characters.by_ref().take(limit) {
        if is_hidden(character) && guard!(PromptSanitised) {
            out.extend(character.escape_unicode());
        } else {
            out.push(character);
        }
    }
    let rest = characters.count();
    if rest > 0 {
        out.push_str(&cut_note(rest));
    }
    out
}

/// Whether [`shown`] shows all of a text.
pub(crate) fn fits(text: &str, limit: usize) -> bool {
    let rest = text.chars().count().saturating_sub(limit);
    rest <= cut_note(rest).len()
}

fn cut_note(rest: usize) -> String {
    format!("... ({rest} more characters)")
}

fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(u32::from(character),
            0x00ad | 0x061c | 0x180e | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff | 0xfff9..=0xfffb | 0xe0000..=0xe007f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_reads_holds_no_hidden_characters() {
        assert_eq!(shown("rm\u{1b}[2K\n\u{202e}x", 50), "rm\\u{1b}[2K\\u{a}\\u{202e}x");
        assert_eq!(shown(&"abcdef".repeat(10), 3), "abc... (57 more characters)");
        assert_eq!(shown("abcdef", 3), "abcdef", "the note would be longer than what it stands for");
    }
}
