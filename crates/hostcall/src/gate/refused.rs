//! Remembers what extensions were refused, so that a failure that comes of a refusal is told with the grant that cures it.
//!
//! The realm is not asked why something failed: it could name any grant. What is kept here are the gate's own refusals,
//! and a failure belongs to the newest one whose words it has. The grant is what the call was about and no more, in the
//! form of `pi ext grants allow`. Where the user answered *never*, the cure is to take that answer back.

use super::asking::ExactScope;
use super::{Gate, Never, Permit, Reason};
use crate::asked::{allow_command, revoke_command};
use crate::connector::{Caller, During, Profile};
use crate::derive::{Access, Required, Subject};
use crate::prompt::shown;
use crate::vocabulary::is_free_variable;
use pijs_protocol::manifest::Scope;
use pijs_protocol::{ExtensionId, HostcallError};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Refusals that are kept of one extension.
const MOST_KEPT: usize = 64;
/// Digits of a number that a process or a moment may have given; fewer may be a version.
const SHORTEST_NUMBER: usize = 3;
/// The message that a realm throws where a text may not be compiled.
const TEXT_REFUSED: &str = "eval is not supported";
/// Longest grant that is told.
const LONGEST_GRANT: usize = 1000;

/// Refusals by extension, the oldest first.
#[derive(Default)]
pub(super) struct Refusals(Mutex<BTreeMap<ExtensionId, VecDeque<Refusal>>>);

struct Refusal {
    /// The words of the refusal itself, as a failure repeats them.
    words: String,
    /// The subjects that Node's message names: a path in quotes, a program, a server.
    subjects: Vec<String>,
    /// A server was asked for; `fetch` says no more than that it failed.
    is_request: bool,
    /// What would let it pass.
    cure: Cure,
}

/// What is typed so that something is not refused again.
#[derive(Clone)]
enum Cure {
    /// Grants in the form of `pi ext grants allow`.
    Allow(Vec<String>),
    /// Answers in the form of `pi ext grants revoke`.
    Revoke(Vec<String>),
}

impl Refusals {
    fn note(&self, extension: &ExtensionId, refusal: Refusal) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = all.entry(extension.clone()).or_default();
        if kept.len() == MOST_KEPT {
            kept.pop_front();
        }
        kept.push_back(refusal);
    }

    fn cure(&self, extension: &ExtensionId, message: &str) -> Option<Cure> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newest_first = all.get(extension)?.iter().rev();
        let found = newest_first.filter(|refusal| refusal.caused(message)).map(|refusal| refusal.cure.clone());
        found.into_iter().next()
    }
}

impl Refusal {
    fn caused(&self, message: &str) -> bool {
        let is_node =
            message.contains("EACCES") && self.subjects.iter().any(|subject| message.contains(subject.as_str()));
        is_node || message.contains(&self.words) || (self.is_request && message.trim() == "fetch failed")
    }
}

impl Gate {
    /// The command after which a failure of an extension does not happen again: none when no refusal caused it, or when no
    /// grant says exactly what was asked for.
    pub fn cure(&self, extension: &ExtensionId, message: &str) -> Option<String> {
        match self.inner.refusals.cure(extension, message)? {
            Cure::Allow(grants) if !grants.is_empty() => Some(allow_command(extension.as_str(), &grants)),
            Cure::Revoke(answers) if !answers.is_empty() => Some(revoke_command(extension.as_str(), &answers)),
            _ => None,
        }
    }

    /// Notes that a call was refused.
    pub(crate) fn note_refused(
        &self,
        caller: &Caller,
        required: &Required<'_>,
        reason: Option<Reason>,
        refusal: &HostcallError,
    ) {
        // No grant of the extension decides what the model does after its message.
        if caller.during == During::Model {
            return;
        }
        let subjects = match &required.subject {
            Subject::Paths(first, second) => {
                let paths = std::iter::once(first).chain(second).map(|used| format!("'{}'", used.path));
                paths.collect()
            }
            Subject::Program { command, .. } => vec![(*command).to_owned()],
            Subject::Host { host, .. } => vec![host.clone()],
            // The realm says what an engine without a compiler says, which libraries look for.
            Subject::Code { path: "", .. } => Vec::new(),
            Subject::Code { path, .. } => vec![format!("'{path}'")],
            _ => Vec::new(),
        };
        let is_request = matches!(required.subject, Subject::Host { .. });
        let cure = match reason {
            Some(Reason::User) => Cure::Revoke(self.nevers(caller, required)),
            Some(Reason::AfterSecret) => Cure::Allow(vec!["egress".to_owned()]),
            Some(reason) if reason.can_be_asked() || reason == Reason::NonInteractive => {
                Cure::Allow(self.exact_grants(caller, required))
            }
            _ => Cure::Allow(Vec::new()),
        };
        let is_text = matches!(required.subject, Subject::Code { path: "", .. });
        let words = if is_text { TEXT_REFUSED.to_owned() } else { refusal.message.clone() };
        self.inner.refusals.note(caller.extension(), Refusal { words, subjects, is_request, cure });
    }

    /// Returns the answers *never* that stand against a call, as `pi ext grants revoke` takes them back.
    pub fn nevers(&self, caller: &Caller, required: &Required<'_>) -> Vec<String> {
        let authority = self.authority(&caller.profile);
        let case =
            super::case::Case { inner: &self.inner, profile: &caller.profile, authority: &authority, method: "" };
        let mut nevers = case.nevers(required).unwrap_or_default();
        let is_it = |never: &&Never| never.scope.is_none() && never.capability.as_str() == required.capability;
        nevers.extend(authority.never.iter().filter(is_it));
        if nevers.is_empty() && required.capability == "http" {
            nevers.extend(authority.never.iter().filter(|never| never.capability.as_str() == "egress"));
        }
        revocable(nevers)
    }

    /// Notes that a path led to a place that a caller may not touch.
    pub(super) fn note_refused_place(&self, permit: &Permit, named: &Path, access: Access, place: &Path) {
        let extension = permit.extension();
        let scope = ExactScope::Paths(vec![place.to_owned()]);
        let case = permit.case();
        let nevers = case.never_at(access, place);
        let cure = if nevers.is_empty() {
            Cure::Allow(self.lasting_grants(access.capability(), &scope))
        } else {
            Cure::Revoke(revocable(nevers))
        };
        let (words, subjects) = (format!("'{}'", named.display()), vec![format!("'{}'", named.display())]);
        self.inner.refusals.note(extension, Refusal { words, subjects, is_request: false, cure });
    }

    /// The grants that cover a call and are not held.
    fn exact_grants(&self, caller: &Caller, required: &Required<'_>) -> Vec<String> {
        let missing = self.missing_scopes(&caller.profile, required);
        missing.iter().flat_map(|(capability, scope)| self.lasting_grants(capability, scope)).collect()
    }

    /// What a call is about and the caller does not hold, each path by itself.
    pub(super) fn missing_scopes(&self, profile: &Profile, required: &Required<'_>) -> Vec<(&'static str, ExactScope)> {
        let authority = self.authority(profile);
        let case = super::case::Case { inner: &self.inner, profile, authority: &authority, method: "" };
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

    /// The grants of a scope that hold next time, too: a temporary file or folder whose name ends in a number, as that of a
    /// process, has another one then.
    fn lasting_grants(&self, capability: &str, scope: &ExactScope) -> Vec<String> {
        let exact = self.as_grants(capability, scope);
        match (exact.as_slice(), scope) {
            ([grant], ExactScope::Paths(paths))
                if paths.iter().all(|path| path.starts_with(&self.inner.places.temp)) =>
            {
                match numbered(grant) {
                    Some(stem) => vec![format!("{stem}*"), format!("{stem}*/**")],
                    None => exact,
                }
            }
            _ => exact,
        }
    }

    /// A scope as `pi ext grants allow` takes it; nothing for one that no pattern says.
    pub(super) fn as_grants(&self, capability: &str, scope: &ExactScope) -> Vec<String> {
        let Some(kept) = scope.to_scope(&self.inner.places.project) else { return Vec::new() };
        if !self.can_be_kept(kept.as_ref()) {
            return Vec::new();
        }
        let lists = kept.as_ref().map(|scope| [&scope.paths, &scope.hosts, &scope.commands, &scope.env]);
        let grants: Vec<String> = match lists {
            None => vec![capability.to_owned()],
            Some(lists) => lists.into_iter().flatten().flatten().map(|one| format!("{capability}:{one}")).collect(),
        };
        // Whoever copies it has to see all of it.
        let is_plain = grants.iter().all(|grant| shown(grant, LONGEST_GRANT) == *grant);
        if is_plain { grants } else { Vec::new() }
    }
}

/// The answers that are taken back with a command, each once.
fn revocable(nevers: Vec<&Never>) -> Vec<String> {
    let mut texts: Vec<String> = nevers.iter().filter_map(|never| never.text.clone()).collect();
    texts.sort();
    texts.dedup();
    texts
}

/// What stands before the number that a name ends in, `results-` of `results-10970`; `None` where it ends otherwise.
fn numbered(name: &str) -> Option<&str> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_number = name.len() - stem.len() >= SHORTEST_NUMBER;
    let last = stem.rsplit('/').next().unwrap_or_default();
    (is_number && last.len() > 1 && last.ends_with(['-', '_', '.']) && !stem.contains(['[', '{', '*', '?']))
        .then_some(stem)
}
