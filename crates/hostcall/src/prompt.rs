//! Permission prompts.
//!
//! The terminal, an RPC client or an embedder implements [`Prompter`]. One prompt is open at a time; an answer that also settles
//! a later prompt prevents that prompt.

pub use pijs_protocol::characters::shown;

use crate::risk::ExpectedLoss;
use crate::task::BoxFuture;
use pijs_protocol::manifest::{CapabilityRequest, Scope};
use pijs_protocol::{Capability, ExtensionId, guard};

/// Prompts the user about capabilities.
pub trait Prompter: Send + Sync {
    /// Prompts the user. An implementation without a user returns [`Answer::NoPerson`].
    fn ask(&self, question: Question) -> BoxFuture<'static, Answer>;
}

/// One permission prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The requesting extension.
    pub extension: ExtensionId,
    /// The requested capability.
    pub capability: Capability,
    /// Description of the capability: *run programs*.
    pub what: String,
    /// The exact subject: the path, the program with all arguments, the host. Without control characters, and truncated to a size
    /// that a terminal can show.
    pub subject: String,
    /// Warnings: combinations, interpreters, files that run later.
    pub warnings: Vec<String>,
    /// Descriptions of all requests of the extension without a grant, one per line; empty if the user cannot grant them together.
    pub package: Vec<String>,
    /// Requests that `package` describes. Consent covers these, even if the extension has other requests by then.
    pub(crate) requested: Vec<CapabilityRequest>,
    /// Expected loss of granting and of denying.
    pub loss: ExpectedLoss,
    /// Whether [`Answer::AllowAlways`] would outlive the session. The prompt offers that answer only then.
    pub can_be_kept: bool,
    /// Whether the whole subject is shown. If not, an answer covers this call only: a hidden part may name a file that changes.
    pub is_whole: bool,
    /// Denials of this extension in a row; from three on, a prompt offers [`Answer::Mute`].
    pub refused: u32,
    /// Duration of [`Answer::AllowOnce`] and [`Answer::Deny`].
    pub holds: AnswerExtent,
}

/// Calls that [`Answer::AllowOnce`] and [`Answer::Deny`] settle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerExtent {
    /// This call only.
    Call,
    /// Equal calls until all extensions are loaded.
    Load,
    /// All texts that the extension compiles until it is loaded again.
    Reload,
    /// One act that is not a call. There is only yes and no.
    Act,
    /// A program or a definition that has changed, as it is now. There is only yes, from now on, and no.
    Change,
}

impl AnswerExtent {
    /// Returns whether the prompt is not about a call, so that other answers than yes and no mean the same.
    pub fn is_yes_or_no(self) -> bool {
        matches!(self, Self::Act | Self::Change)
    }
}

impl Question {
    /// Creates a prompt without a subject.
    pub fn about(extension: ExtensionId, loss: ExpectedLoss) -> Self {
        Self {
            extension,
            capability: "".into(),
            what: String::new(),
            subject: String::new(),
            warnings: Vec::new(),
            package: Vec::new(),
            requested: Vec::new(),
            loss,
            can_be_kept: false,
            is_whole: true,
            refused: 0,
            holds: AnswerExtent::Call,
        }
    }

    /// Returns the name of the extension for display: a file name can contain any characters.
    pub fn who(&self) -> String {
        if guard!(PromptName) { shown(self.extension.as_str(), 400) } else { self.extension.to_string() }
    }
}

/// Stores answers that outlive a session.
pub trait AnswerStore: Send + Sync {
    /// Stores the user's answer about an extension.
    fn remember(&self, extension: &ExtensionId, remembered: Remembered);
}

/// An answer that outlives a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// The capability.
    pub capability: Capability,
    /// Hostcall methods that may use the capability; absent means any.
    pub methods: Option<Vec<String>>,
    /// Scope of the answer; absent means anywhere.
    pub scope: Option<Scope>,
    /// Whether the answer allows the capability; otherwise it denies it permanently.
    pub allowed: bool,
}

/// The user's answer to a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Denies the calls of [`Question::holds`].
    Deny,
    /// Denies permanently; outlives the session if there is an [`AnswerStore`].
    DenyAlways,
    /// Denies, and suppresses further prompts about this extension in this session.
    Mute,
    /// Allows the calls of [`Question::holds`].
    AllowOnce,
    /// Allows this subject (path, program, host, name) for the rest of the session.
    AllowSubject,
    /// Allows this subject, also in later sessions if there is an [`AnswerStore`].
    AllowAlways,
    /// Allows the whole capability for the rest of the session.
    AllowCapability,
    /// Allows all requests of the extension ([`Question::package`]) for the rest of the session.
    AllowPackage,
    /// Allows all requests of the extension, also in later sessions if there is an [`AnswerStore`].
    AllowPackageAlways,
    /// There is no user to prompt.
    NoPerson,
}
