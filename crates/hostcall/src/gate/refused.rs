//! Remembers what extensions were refused, so that a failure that comes of a refusal is told with the grant that cures it.
//!
//! The realm is not asked why something failed: it could name any grant. What is kept here are the gate's own refusals,
//! and a failure belongs to the newest one whose words it has. The grant is what the call was about and no more, in the
//! form of `pi ext grants allow`.

use super::asking::ExactScope;
use super::{Gate, Reason};
use crate::asked::allow_command;
use crate::connector::{Caller, During};
use crate::derive::{Access, Required, Subject};
use crate::prompt::shown;
use pijs_protocol::{ExtensionId, HostcallError};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Refusals that are kept of one extension.
const MOST_KEPT: usize = 64;
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
    /// Grants in the form of `pi ext grants allow`.
    grants: Vec<String>,
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

    fn cure(&self, extension: &ExtensionId, message: &str) -> Option<Vec<String>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newest_first = all.get(extension)?.iter().rev();
        let found = newest_first.filter(|refusal| refusal.caused(message)).map(|refusal| refusal.grants.clone());
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
        let grants = self.inner.refusals.cure(extension, message).filter(|grants| !grants.is_empty())?;
        Some(allow_command(extension.as_str(), &grants))
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
            Subject::Code { path, .. } => vec![format!("'{path}'")],
            _ => Vec::new(),
        };
        let is_request = matches!(required.subject, Subject::Host { .. });
        let grants = match reason {
            Some(Reason::AfterSecret) => vec!["egress".to_owned()],
            Some(reason) if reason.can_be_asked() || reason == Reason::NonInteractive => {
                self.exact_grants(caller, required)
            }
            _ => Vec::new(),
        };
        let words = refusal.message.clone();
        self.inner.refusals.note(caller.extension(), Refusal { words, subjects, is_request, grants });
    }

    /// Notes that a path led to a place that a caller may not touch.
    pub(super) fn note_refused_place(&self, extension: &ExtensionId, named: &Path, access: Access, place: &Path) {
        let scope = ExactScope::Paths(vec![place.to_owned()]);
        let grants = self.as_grants(access.capability(), &scope);
        let (words, subjects) = (format!("'{}'", named.display()), vec![format!("'{}'", named.display())]);
        self.inner.refusals.note(extension, Refusal { words, subjects, is_request: false, grants });
    }

    /// The grants that cover a call and are not held.
    fn exact_grants(&self, caller: &Caller, required: &Required<'_>) -> Vec<String> {
        let authority = self.authority(&caller.profile);
        let case =
            super::case::Case { inner: &self.inner, profile: &caller.profile, authority: &authority, method: "" };
        let mut grants = Vec::new();
        for (capability, scope) in self.exact_scopes(required) {
            let access = if capability == "write" { Access::Write } else { Access::Read };
            let is_missing = |path: &Path| case.path(access, path).is_err();
            match scope {
                ExactScope::Paths(paths) => {
                    for path in paths.into_iter().filter(|path| is_missing(path)) {
                        grants.extend(self.as_grants(capability, &ExactScope::Paths(vec![path])));
                    }
                }
                scope => grants.extend(self.as_grants(capability, &scope)),
            }
        }
        grants
    }

    /// A scope as `pi ext grants allow` takes it; nothing for one that no pattern says.
    fn as_grants(&self, capability: &str, scope: &ExactScope) -> Vec<String> {
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
