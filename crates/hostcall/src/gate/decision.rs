//! A decision and its words.

use crate::derive::Subject;
use crate::loss::ExpectedLoss;
use pijs_protocol::HostcallError;
use std::fmt;
use std::sync::Arc;

/// What was decided, and why. Every one is in the ledger.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Whether the call goes on.
    pub allowed: bool,
    /// The capability it needed.
    pub capability: &'static str,
    /// The line of the list that settled it.
    pub rule: Rule,
    /// The grant that covered it.
    pub grant: Option<Arc<str>>,
    /// Why it was denied.
    pub reason: Option<Reason>,
    /// Expected loss of both choices at that moment.
    pub loss: ExpectedLoss,
}

/// The line of the gate's list that settled a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Works without asking.
    Free,
    /// An open handle, decided when it was opened.
    Handle,
    /// A grant of the extension.
    Grant,
    /// The extension made it.
    Made,
    /// A default capability of the policy.
    Default,
    /// Permissive mode.
    Permissive,
    /// A person answered.
    Person,
    /// On a deny list.
    DenyList,
    /// The user answered *never*.
    Never,
    /// A protected place.
    Protected,
    /// A file that runs later, and no grant that names it.
    RunsLater,
    /// The capability is held, but not here.
    OutOfScope,
    /// The capability is not held.
    NoGrant,
    /// Nobody to ask.
    NoPerson,
    /// A verdict is awaited; nobody is asked.
    Verdict,
    /// A file that may hold secrets was read before.
    AfterSecret,
    /// A person was asked too often.
    Muted,
    /// Variables of which none is set, or a path at which nothing lies; nobody is asked about nothing.
    Unset,
}

impl Rule {
    /// The name in the ledger.
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
    /// The capability is not held.
    NoGrant,
    /// It is held, but not for this.
    Scope,
    /// The policy says no.
    Policy,
    /// A person said no.
    User,
    /// Nobody to ask.
    NonInteractive,
    /// The place is protected in every mode.
    ProtectedPath,
    /// The address is not public.
    BlockedAddress,
    /// It has read a file that may hold secrets, and nobody consented to what may leave.
    AfterSecret,
    /// It has asked a person too often.
    Quota,
}

impl Reason {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoGrant => "no_grant",
            Self::Scope => "scope",
            Self::Policy => "policy",
            Self::User => "user",
            Self::NonInteractive => "non_interactive",
            Self::ProtectedPath => "protected_path",
            Self::BlockedAddress => "blocked_address",
            Self::AfterSecret => "after_secret",
            Self::Quota => "quota",
        }
    }

    /// The error of a refusal that a connector noticed while resolving. `subject` is what the
    /// caller wrote, so that the words do not depend on what is there.
    pub fn refusal(self, capability: &str, method: &str, subject: &str) -> HostcallError {
        refusal(capability, self, method, subject)
    }

    /// Whether a person could say otherwise.
    pub fn can_be_asked(self) -> bool {
        matches!(self, Self::NoGrant | Self::Scope | Self::AfterSecret | Self::BlockedAddress)
    }
}

impl Decision {
    /// The same call, denied for another reason.
    #[must_use]
    pub fn because(mut self, reason: Reason, rule: Rule) -> Self {
        self.allowed = false;
        self.reason = Some(reason);
        self.rule = rule;
        self
    }

    /// The error an extension gets for a refusal. Names what was asked for as it was asked, and
    /// nothing about what is there.
    pub fn refusal(&self, method: &str, subject: &Subject<'_>) -> HostcallError {
        refusal(self.capability, self.reason.unwrap_or(Reason::Policy), method, &subject.to_string())
    }
}

/// The error for a refusal, whether the gate or a connector noticed it.
pub(crate) fn refusal(capability: &str, reason: Reason, method: &str, subject: &str) -> HostcallError {
    let why = match reason {
        Reason::NoGrant => "not granted",
        Reason::Scope => "outside of what is granted",
        Reason::Policy => "denied by the policy",
        Reason::User => "denied by the user",
        Reason::NonInteractive => "not granted, and nobody can be asked",
        Reason::ProtectedPath => "a protected place",
        Reason::BlockedAddress => "not a public address",
        Reason::AfterSecret => "held back: files that may hold secrets were read before, see the capability `egress`",
        Reason::Quota => "not asked about any more: it was refused too often, or too many questions wait",
    };
    let about = if subject.is_empty() { String::new() } else { format!(" for {subject}") };
    HostcallError::denied(reason.as_str(), format!("{method}: capability `{capability}`{about} is {why}"))
        .with("capability", capability)
}

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None | Self::Handle => Ok(()),
            Self::Paths(first, None) => write!(f, "'{}'", first.path),
            Self::Paths(first, Some(second)) if first.path == second.path => write!(f, "'{}'", first.path),
            Self::Paths(first, Some(second)) => write!(f, "'{}' -> '{}'", first.path, second.path),
            Self::Program { command, args, given, .. } => {
                for variable in given.asked() {
                    write!(f, "{}={} ", variable.name, variable.shown_value())?;
                }
                f.write_str(command)?;
                for arg in args {
                    if !arg.is_empty() && arg.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c)) {
                        write!(f, " {arg}")?;
                    } else {
                        write!(f, " {arg:?}")?;
                    }
                }
                Ok(())
            }
            Self::Host { scheme, host, port } => write!(f, "{scheme}://{host}:{port}"),
            Self::Names(names) => f.write_str(&names.join(", ")),
            Self::Tool(name) => write!(f, "tool {name:?}"),
            Self::Mcp { target, arguments } => {
                let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./@".contains(c);
                if target.chars().all(is_plain) {
                    f.write_str(target)?
                } else {
                    write!(f, "{target:?}")?
                }
                arguments.map_or(Ok(()), |arguments| write!(f, " {arguments}"))
            }
            Self::Code { path: "", bytes, digest } => write!(f, "code made of text ({bytes} bytes, {digest})"),
            Self::Code { path, bytes, digest } if path.contains('\'') => {
                write!(f, "{path:?} ({bytes} bytes, {digest})")
            }
            Self::Code { path, bytes, digest } => write!(f, "'{path}' ({bytes} bytes, {digest})"),
        }
    }
}
