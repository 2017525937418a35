//! Records refusals of extensions, so that the report of a failure can name the command that fixes it.
//!
//! The realm is not asked for the cause of a failure, because a compromised realm could name any grant. This module keeps the
//! gate's own refusals, and matches a failure to the newest refusal whose message it contains. The suggested grant covers the
//! refused subject only, in the form of `pi ext grants allow`. For a permanent denial the suggestion is to revoke it.

use super::prompting::ExactScope;
use super::{Gate, Never, Permit};
use crate::caller::{Caller, During, Profile};
use crate::decision::Reason;
use crate::prompt::shown;
use crate::requests::{allow_command, revoke_command};
use crate::scope::command_with_any_rest;
use crate::subject::{Access, Input, PathUse, Required, Subject};
use crate::vocabulary::is_free_variable;
use pijs_programs::{self as programs, Kind};
use pijs_protocol::manifest::Scope;
use pijs_protocol::{ExtensionId, HostcallError};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Separates the message of a failure from the command that grants what a refusal denied.
pub const CURE: &str = "\nto allow it: ";

/// Maximum number of stored refusals of one extension.
const MAX_REFUSALS: usize = 64;
/// Minimum number of digits of a process id or a time; shorter numbers may be versions.
const MIN_DIGITS: usize = 3;
/// Message of a realm that may not compile text.
const TEXT_REFUSED: &str = "eval is not supported";
/// Maximum length of a suggested grant, in characters.
const MAX_GRANT_CHARS: usize = 1000;

/// Refusals by extension, oldest first.
#[derive(Default)]
pub(super) struct Refusals(Mutex<BTreeMap<ExtensionId, VecDeque<RecordedRefusal>>>);

struct RecordedRefusal {
    /// Message of the refusal, as a failure repeats it.
    words: String,
    /// Subjects that Node's message names: a path in quotes, a program, or a server.
    subjects: Vec<String>,
    /// Whether the refused call was an HTTP request: `fetch` reports only that it failed.
    is_request: bool,
    /// Command that prevents the refusal.
    cure: SuggestedCommand,
    capability: &'static str,
    /// Whether a user would have been prompted.
    lacks_user: bool,
    /// Whether an error or an output of the extension contained it.
    is_reported: bool,
}

/// A command that prevents a refusal.
enum SuggestedCommand {
    /// Grants in the form of `pi ext grants allow`.
    Allow(Vec<String>),
    /// Grant that allows more than the refused call, because no narrower one covers it; and a note of what it allows in addition.
    AllowMore(String, &'static str),
    /// Answers in the form of `pi ext grants revoke`.
    Revoke(Vec<String>),
}

impl Refusals {
    fn note(&self, extension: &ExtensionId, refusal: RecordedRefusal) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = all.entry(extension.clone()).or_default();
        if kept.len() == MAX_REFUSALS {
            kept.pop_front();
        }
        kept.push_back(refusal);
    }

    /// Returns the command that prevents a failure, and marks the refusal as reported.
    fn cure(&self, extension: &ExtensionId, message: &str) -> Option<String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut newest_first = all.get_mut(extension)?.iter_mut().rev();
        let found = newest_first.find(|refusal| refusal.caused(message))?;
        found.is_reported = true;
        found.cure.command(extension)
    }
}

impl SuggestedCommand {
    fn command(&self, extension: &ExtensionId) -> Option<String> {
        match self {
            Self::Allow(grants) if !grants.is_empty() => Some(allow_command(extension.as_str(), grants)),
            // The remark is a shell comment, so that the whole line can be pasted.
            Self::AllowMore(grant, more) => {
                let command = allow_command(extension.as_str(), std::slice::from_ref(grant));
                Some(format!("{command}  # {more}; no narrower grant covers it"))
            }
            Self::Revoke(answers) if !answers.is_empty() => Some(revoke_command(extension.as_str(), answers)),
            _ => None,
        }
    }
}

impl RecordedRefusal {
    fn new(words: String, subjects: Vec<String>, capability: &'static str, cure: SuggestedCommand) -> Self {
        Self { words, subjects, is_request: false, cure, capability, lacks_user: false, is_reported: false }
    }

    fn caused(&self, message: &str) -> bool {
        let is_node =
            message.contains("EACCES") && self.subjects.iter().any(|subject| message.contains(subject.as_str()));
        is_node || message.contains(&self.words) || (self.is_request && message.trim() == "fetch failed")
    }
}

impl Gate {
    /// Returns the command that prevents a failure of an extension. Returns `None` if no refusal caused the failure, or no grant
    /// expresses exactly the refused subject.
    pub fn cure(&self, extension: &ExtensionId, message: &str) -> Option<String> {
        self.inner.refusals.cure(extension, message)
    }

    /// Returns the calls that were refused because there was no user to prompt, and that no error or output of the extension
    /// reported: the first one of each extension and capability, with the command that allows it.
    pub fn unreported_refusals(&self) -> Vec<(ExtensionId, String)> {
        let all = self.inner.refusals.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = Vec::new();
        for (extension, refusals) in all.iter() {
            let reported = refusals.iter().filter(|refusal| refusal.is_reported).map(|refusal| refusal.capability);
            // A variable that is not granted is read as one that is not set.
            let mut done: Vec<&str> = reported.chain(["env"]).collect();
            for refusal in refusals.iter().filter(|refusal| refusal.lacks_user) {
                if !done.contains(&refusal.capability) {
                    done.push(refusal.capability);
                    let command = refusal.cure.command(extension);
                    let cure = command.map(|command| format!("{CURE}{command}")).unwrap_or_default();
                    found.push((extension.clone(), format!("{}{cure}", refusal.words)));
                }
            }
        }
        found
    }

    /// Records that a call was refused. Returns the command that allows it.
    pub(crate) fn note_refused(
        &self,
        caller: &Caller,
        required: &Required<'_>,
        reason: Option<Reason>,
        refusal: &HostcallError,
    ) -> Option<String> {
        // Calls of the model after a message of the extension are not decided by grants of the extension.
        if caller.during == During::Model {
            return None;
        }
        let subjects = match &required.subject {
            Subject::Paths(first, second) => {
                let paths = std::iter::once(first).chain(second).map(|used| format!("'{}'", used.path));
                paths.collect()
            }
            Subject::Program { command, .. } => vec![(*command).to_owned()],
            Subject::Host { host, .. } => vec![host.clone()],
            // The realm throws the error of an engine without a compiler, because libraries probe for it.
            Subject::Code { path: "", .. } => Vec::new(),
            Subject::Code { path, .. } => vec![format!("'{path}'")],
            _ => Vec::new(),
        };
        let is_request = matches!(required.subject, Subject::Host { .. });
        let cure = match reason {
            Some(Reason::User) => SuggestedCommand::Revoke(self.nevers(caller, required)),
            Some(Reason::AfterSecret) => SuggestedCommand::Allow(vec!["egress".to_owned()]),
            Some(reason)
                if reason.can_be_asked()
                    || matches!(reason, Reason::NonInteractive | Reason::EarlierAnswer(_) | Reason::Quota) =>
            {
                match self.exact_grants(caller, required) {
                    exact if exact.is_empty() => self.wider_grant(required),
                    exact => SuggestedCommand::Allow(exact),
                }
            }
            _ => SuggestedCommand::Allow(Vec::new()),
        };
        let is_text = matches!(required.subject, Subject::Code { path: "", .. });
        // Libraries test for files and for a compiler.
        let is_probe = is_text || matches!(&required.subject, Subject::Paths(PathUse { access: Access::Look, .. }, _));
        let words = if is_text { TEXT_REFUSED.to_owned() } else { refusal.message.clone() };
        let command = cure.command(caller.extension());
        let lacks_user = reason == Some(Reason::NonInteractive) && !is_probe;
        let recorded = RecordedRefusal::new(words, subjects, required.capability, cure);
        self.inner.refusals.note(caller.extension(), RecordedRefusal { is_request, lacks_user, ..recorded });
        command
    }

    /// Returns the permanent denials that apply to a call, in the form of `pi ext grants revoke`.
    pub fn nevers(&self, caller: &Caller, required: &Required<'_>) -> Vec<String> {
        let authority = self.authority(&caller.profile);
        let case = super::evaluation::Evaluation {
            inner: &self.inner,
            profile: &caller.profile,
            authority: &authority,
            method: "",
        };
        let mut nevers = case.permanent_denials(required).unwrap_or_default();
        let is_it = |never: &&Never| never.scope.is_none() && never.capability.as_str() == required.capability;
        nevers.extend(authority.never.iter().filter(is_it));
        if nevers.is_empty() && required.capability == "http" {
            nevers.extend(authority.never.iter().filter(|never| never.capability.as_str() == "egress"));
        }
        revocations(nevers)
    }

    /// Records that a path resolved to a location that the caller may not access.
    pub(super) fn note_refused_place(&self, permit: &Permit, named: &Path, access: Access, place: &Path) {
        let extension = permit.extension();
        let scope = ExactScope::Paths(vec![place.to_owned()]);
        let case = permit.case();
        let nevers = case.permanent_denials_at(access, place);
        let cure = if nevers.is_empty() {
            SuggestedCommand::Allow(self.lasting_grants(access.capability(), &scope))
        } else {
            SuggestedCommand::Revoke(revocations(nevers))
        };
        let words = format!("'{}'", named.display());
        let (subjects, capability) = (vec![words.clone()], access.capability());
        self.inner.refusals.note(extension, RecordedRefusal::new(words, subjects, capability, cure));
    }

    /// Returns the missing grants that cover a call.
    fn exact_grants(&self, caller: &Caller, required: &Required<'_>) -> Vec<String> {
        let missing = self.missing_scopes(&caller.profile, required);
        missing.iter().flat_map(|(capability, scope)| self.lasting_grants(capability, scope)).collect()
    }

    /// Returns the narrowest grant that covers a program whose arguments no pattern expresses, such as a command of a shell.
    /// A program in another folder, or with code as its input, has none.
    fn wider_grant(&self, required: &Required<'_>) -> SuggestedCommand {
        let none = SuggestedCommand::Allow(Vec::new());
        let Subject::Program { command, args, cwd, given } = &required.subject else { return none };
        let places = &self.inner.places;
        let is_here = cwd.is_none_or(|cwd| places.node_path(cwd).is_ok_and(|folder| folder == places.project));
        if !is_here || given.input != Input::Data {
            return none;
        }
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let variables: Vec<(String, String)> =
            given.asked().map(|variable| (variable.name.to_owned(), variable.kept_value())).collect();
        let Some(line) = command_with_any_rest(&variables, command, &args) else { return none };
        let scope = ExactScope::Other(Scope { commands: Some(vec![line]), ..Scope::default() });
        let more = match programs::kind_of(command) {
            Kind::Interpreter => "it runs any code",
            _ => "also with other arguments",
        };
        match self.as_grants(required.capability, &scope).as_slice() {
            [grant] => SuggestedCommand::AllowMore(grant.clone(), more),
            _ => none,
        }
    }

    /// Returns the missing scopes of a call, with a separate scope for each path.
    pub(super) fn missing_scopes(&self, profile: &Profile, required: &Required<'_>) -> Vec<(&'static str, ExactScope)> {
        let authority = self.authority(profile);
        let case = super::evaluation::Evaluation { inner: &self.inner, profile, authority: &authority, method: "" };
        let mut missing = Vec::new();
        for (capability, scope) in self.exact_scopes(required) {
            let access = if capability == "write" { Access::Write } else { Access::Read };
            match scope {
                ExactScope::Paths(paths) => {
                    let paths = paths.into_iter().filter(|path| case.path(access, path).is_err());
                    missing.extend(paths.map(|path| (capability, ExactScope::Paths(vec![path]))));
                }
                ExactScope::Other(Scope { env: Some(names), .. }) => {
                    let is_held = |name: &str| case.by_grant(capability, |scope| scope.env(name)).is_ok();
                    let names = names.into_iter().filter(|name| !is_free_variable(name) && !is_held(name));
                    let one = |name| Scope { env: Some(vec![name]), ..Scope::default() };
                    missing.extend(names.map(|name| (capability, ExactScope::Other(one(name)))));
                }
                scope => missing.push((capability, scope)),
            }
        }
        missing
    }

    /// Returns the grants for a scope that also apply to later runs: the number at the end of a temporary name, such as a process
    /// id, becomes a wildcard.
    fn lasting_grants(&self, capability: &str, scope: &ExactScope) -> Vec<String> {
        let exact = self.as_grants(capability, scope);
        match (exact.as_slice(), scope) {
            ([grant], ExactScope::Paths(paths))
                if paths.iter().all(|path| path.starts_with(&self.inner.places.temp)) =>
            {
                match before_number(grant) {
                    Some(stem) => vec![format!("{stem}*"), format!("{stem}*/**")],
                    None => exact,
                }
            }
            _ => exact,
        }
    }

    /// Formats a scope for `pi ext grants allow`; empty if no pattern expresses it.
    pub(super) fn as_grants(&self, capability: &str, scope: &ExactScope) -> Vec<String> {
        let Some(kept) = scope.to_scope(&self.inner.places.project) else { return Vec::new() };
        if !self.is_storable(kept.as_ref()) {
            return Vec::new();
        }
        let lists = kept.as_ref().map(|scope| [&scope.paths, &scope.hosts, &scope.commands, &scope.env, &scope.tools]);
        let grants: Vec<String> = match lists {
            None => vec![capability.to_owned()],
            Some(lists) => lists.into_iter().flatten().flatten().map(|one| format!("{capability}:{one}")).collect(),
        };
        // The user has to see the whole text to copy it.
        let is_plain = grants.iter().all(|grant| shown(grant, MAX_GRANT_CHARS) == *grant);
        if is_plain { grants } else { Vec::new() }
    }
}

/// Returns the denials that a command can revoke, without duplicates.
fn revocations(nevers: Vec<&Never>) -> Vec<String> {
    let mut texts: Vec<String> = nevers.iter().filter_map(|never| never.text.clone()).collect();
    texts.sort();
    texts.dedup();
    texts
}

/// Returns the part of a name before a trailing number, `results-` of `results-10970`; `None` without a number.
fn before_number(name: &str) -> Option<&str> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_number = name.len() - stem.len() >= MIN_DIGITS;
    let last = stem.rsplit('/').next().unwrap_or_default();
    (is_number && last.len() > 1 && last.ends_with(['-', '_', '.']) && !stem.contains(['[', '{', '*', '?']))
        .then_some(stem)
}
