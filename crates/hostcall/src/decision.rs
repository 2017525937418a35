//! Decisions about calls, and their names in the ledger and on the wire.

use crate::prompt::AnswerExtent;
use crate::risk::ExpectedLoss;
use crate::subject::Subject;
use pijs_protocol::HostcallError;
use std::sync::Arc;

/// A decision about a call, with its reason. Every decision is recorded in the ledger.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Whether the call is allowed.
    pub allowed: bool,
    /// The capability that the call needed.
    pub capability: &'static str,
    /// The rule that decided.
    pub rule: Rule,
    /// Id of the grant that covered it.
    pub grant: Option<Arc<str>>,
    /// The reason of a denial.
    pub reason: Option<Reason>,
    /// Expected loss of granting and of denying at that time.
    pub loss: ExpectedLoss,
}

/// The rule of the gate that decided a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The call needs no consent.
    Free,
    /// The call uses an open handle, which was decided when it was opened.
    Handle,
    /// A grant of the extension covers the call.
    Grant,
    /// The extension created the file.
    Made,
    /// A default capability of the policy.
    Default,
    /// Permissive mode.
    Permissive,
    /// The user answered a prompt.
    Person,
    /// On a deny list.
    DenyList,
    /// A permanent denial of the user.
    Never,
    /// A protected path.
    Protected,
    /// A file that runs later, without a grant that names it.
    RunsLater,
    /// The capability is granted, but not for this subject.
    OutOfScope,
    /// The capability is not granted.
    NoGrant,
    /// There is no user to prompt.
    NoPerson,
    /// A verdict is pending, during which there are no prompts.
    Verdict,
    /// A file with possible secrets was read before.
    AfterSecret,
    /// The extension has caused too many prompts.
    Muted,
    /// The call is only about variables that are not set, or a path without a file, neither of which causes a prompt.
    Unset,
}

impl Rule {
    /// Returns the name in the ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Handle => "handle",
            Self::Grant => "grant",
            Self::Made => "made",
            Self::Default => "default_caps",
            Self::Permissive => "permissive",
            Self::Person => "person",
            Self::DenyList => "deny_list",
            Self::Never => "never",
            Self::Protected => "protected",
            Self::RunsLater => "runs_later",
            Self::OutOfScope => "out_of_scope",
            Self::NoGrant => "no_grant",
            Self::NoPerson => "no_person",
            Self::Verdict => "verdict",
            Self::AfterSecret => "after_secret",
            Self::Muted => "muted",
            Self::Unset => "unset",
        }
    }
}

/// `details.reason` of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The capability is not granted.
    NoGrant,
    /// The capability is granted, but not for this subject.
    Scope,
    /// The policy denies the call.
    Policy,
    /// The user denied the call.
    User,
    /// The user denied an earlier call, and this one was not asked about.
    EarlierAnswer(AnswerExtent),
    /// There is no user to prompt.
    NonInteractive,
    /// The path is protected in every mode.
    ProtectedPath,
    /// The address is not public.
    BlockedAddress,
    /// The extension has read a file with possible secrets, and has no consent to send data.
    AfterSecret,
    /// The extension has caused too many prompts.
    Quota,
}

impl Reason {
    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoGrant => "no_grant",
            Self::Scope => "scope",
            Self::Policy => "policy",
            Self::User | Self::EarlierAnswer(_) => "user",
            Self::NonInteractive => "non_interactive",
            Self::ProtectedPath => "protected_path",
            Self::BlockedAddress => "blocked_address",
            Self::AfterSecret => "after_secret",
            Self::Quota => "quota",
        }
    }

    /// Returns the error of a refusal that a connector found while resolving a name. `subject` is the caller's text, so that the
    /// message does not reveal which files exist.
    pub fn refusal(self, capability: &str, method: &str, subject: &str) -> HostcallError {
        refusal(capability, self, method, subject)
    }

    /// Returns whether the user could decide otherwise.
    pub fn can_be_asked(self) -> bool {
        matches!(self, Self::NoGrant | Self::Scope | Self::AfterSecret | Self::BlockedAddress)
    }
}

impl Decision {
    /// Changes the reason of a denial.
    #[must_use]
    pub fn because(mut self, reason: Reason, rule: Rule) -> Self {
        self.allowed = false;
        self.reason = Some(reason);
        self.rule = rule;
        self
    }

    /// Returns the error of a refusal for the extension. The message names the subject as requested, and does not reveal which
    /// files exist.
    pub fn refusal(&self, method: &str, subject: &Subject<'_>) -> HostcallError {
        refusal(self.capability, self.reason.unwrap_or(Reason::Policy), method, &subject.to_string())
    }
}

/// Returns the error of a refusal by the gate or a connector.
pub(crate) fn refusal(capability: &str, reason: Reason, method: &str, subject: &str) -> HostcallError {
    let why = match reason {
        Reason::NoGrant => "not granted",
        Reason::Scope => "outside of what is granted",
        Reason::Policy => "denied by the policy",
        Reason::User => "denied by the user",
        Reason::EarlierAnswer(AnswerExtent::Call | AnswerExtent::Act | AnswerExtent::Change) => {
            "denied by the user's answer to an equal call; the next one asks again"
        }
        Reason::EarlierAnswer(AnswerExtent::Load) => {
            "denied by the user's answer to an equal call; once all extensions are loaded, calls ask again"
        }
        Reason::EarlierAnswer(AnswerExtent::Reload) => {
            "denied by an earlier answer of the user, which holds until the extension is loaded again"
        }
        Reason::NonInteractive => "not granted, and there is no user to ask",
        Reason::ProtectedPath => "a protected path",
        Reason::BlockedAddress => "not a public address",
        Reason::AfterSecret => {
            "blocked: the extension has read files that may hold secrets; see the capability `egress`"
        }
        Reason::Quota => {
            "denied without a prompt: too many prompts were denied in this session, or too many are pending"
        }
    };
    let about = if subject.is_empty() { String::new() } else { format!(" for {subject}") };
    HostcallError::denied(reason.as_str(), format!("{method}: capability `{capability}`{about} is {why}"))
        .with("capability", capability)
}
