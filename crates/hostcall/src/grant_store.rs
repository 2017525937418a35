//! Grant store of an installation: the user's answers, and the code that they apply to.
//!
//! A [`PackageRecord`] belongs to one source (`npm:NAME`, `path:CANONICAL_PATH`). It is bound to the digest of the code at the
//! time of consent and to the requests of that code. When either has changed, [`PackageRecord::standing`] alone decides whether
//! the answers are still valid. This module does not read or write the file.
//!
//! ```json
//! {"version": 1, "packages": {"npm:x": {"code": "sha256:..", "manifest": "sha256:..", "asked": [..],
//!   "answers": [{"capability": "exec", "scope": {"commands": ["ls"]}, "allowed": true, "by": "install", "at": ".."}]}}}
//! ```

use crate::policy::Grant;
use crate::requests::{digest, widening};
use pijs_protocol::artifact::Offers;
use pijs_protocol::manifest::{CAPABILITY_SCHEMA, CapabilityManifest, CapabilityRequest, Scope};
use pijs_protocol::registration::ToolSpec;
use pijs_protocol::{Capability, guard};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The current version of the format.
pub const VERSION: u32 = 1;

/// Returns `sha256:HEX` over the sources of a package, by name and digest. Independent of the machine and the version of the
/// compiler.
pub fn code_digest(inputs: &BTreeMap<String, String>) -> String {
    let mut hash = Sha256::new();
    for (name, digest) in inputs {
        // Length prefixes make the encoding of two different lists different.
        for text in [name, digest] {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
    }
    format!("sha256:{}", hex::encode(hash.finalize()))
}

/// Returns `sha256:HEX` over the definition of a tool as the model receives it.
pub fn tool_digest(spec: &ToolSpec) -> String {
    let ToolSpec { name, label, description, parameters, prompt_snippet, prompt_guidelines, .. } = spec;
    let said = serde_json::json!([name, label, description, parameters, prompt_snippet, prompt_guidelines]);
    format!("sha256:{}", hex::encode(Sha256::digest(said.to_string())))
}

/// The grants of all packages of an installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantStore {
    /// Version of the format, [`VERSION`].
    pub version: u32,
    /// Records by package source.
    pub packages: BTreeMap<String, PackageRecord>,
}

impl Default for GrantStore {
    fn default() -> Self {
        Self { version: VERSION, packages: BTreeMap::new() }
    }
}

/// The answers about one package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageRecord {
    /// `sha256:HEX` over the sources at the time of consent.
    pub code: String,
    /// `sha256:HEX` over `asked`.
    pub manifest: String,
    /// The requested capabilities at the time of consent.
    pub asked: Vec<CapabilityRequest>,
    /// Answers, oldest first.
    pub answers: Vec<StoredAnswer>,
    /// Digests of the tool definitions at the first use of the package with these answers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, String>,
    /// Tools and commands of the package that the user was last notified about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brings: Option<Offers>,
}

/// One answer of the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredAnswer {
    /// Capability of the answer.
    pub capability: Capability,
    /// Hostcall methods that may use the capability; absent means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub methods: Option<Vec<String>>,
    /// Scope of the answer; absent means anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// Whether the answer allows the capability; otherwise it denies it permanently.
    pub allowed: bool,
    /// Origin of the answer.
    pub by: By,
    /// Time of the answer, RFC 3339.
    pub at: String,
}

/// The origin of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// A prompt at install.
    Install,
    /// `pi install --yes`.
    Yes,
    /// An unattended install, which grants the same as an extension file named with `-e`.
    Unattended,
    /// A prompt at run time.
    Prompt,
    /// `pi ext grants allow` or `deny`.
    Command,
}

impl By {
    /// Describes the origin for the user.
    pub fn words(self) -> &'static str {
        match self {
            Self::Install => "prompt at install",
            Self::Yes => "pi install --yes",
            Self::Unattended => "unattended install",
            Self::Prompt => "prompt at run time",
            Self::Command => "pi ext grants",
        }
    }
}

/// The current state of a package, compared with its record.
#[derive(Debug, Clone, Copy)]
pub struct CurrentPackage<'a> {
    /// Digest of its sources.
    pub code: &'a str,
    /// Capabilities that it requests.
    pub asked: &'a CapabilityManifest,
    /// Whether the package is a local path, which the user develops: code changes do not require new consent, additional requests
    /// do.
    pub local: bool,
}

/// Whether the answers in a record are still valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerValidity {
    /// The answers are valid.
    Holds,
    /// The package requests additional capabilities. Answers about a local path stay valid; answers about another source do not.
    Widened(Vec<CapabilityRequest>),
    /// The code differs from the code at the time of consent, and no install changed it.
    Changed,
}

impl PackageRecord {
    /// Creates a record without answers.
    pub fn new(present: CurrentPackage<'_>) -> Self {
        Self {
            code: present.code.to_owned(),
            manifest: digest(present.asked),
            asked: present.asked.capabilities.clone(),
            answers: Vec::new(),
            tools: BTreeMap::new(),
            brings: None,
        }
    }

    /// Returns the requested capabilities as a manifest.
    pub fn manifest(&self) -> CapabilityManifest {
        CapabilityManifest { schema: CAPABILITY_SCHEMA.to_owned(), capabilities: self.asked.clone() }
    }

    /// Compares the record with the current state of the package.
    pub fn standing(&self, present: CurrentPackage<'_>) -> AnswerValidity {
        if !guard!(GrantsBound) || (self.code == present.code && self.manifest == digest(present.asked)) {
            return AnswerValidity::Holds;
        }
        let more = widening(&self.manifest(), present.asked);
        match (more.is_empty(), present.local) {
            (false, _) => AnswerValidity::Widened(more),
            (true, true) => AnswerValidity::Holds,
            (true, false) => AnswerValidity::Changed,
        }
    }

    /// Rebinds the answers to the current state, after an update that requests no more.
    pub fn bind(&mut self, present: CurrentPackage<'_>) {
        self.code = present.code.to_owned();
        self.manifest = digest(present.asked);
        self.asked = present.asked.capabilities.clone();
        self.tools.clear();
    }

    /// Adds an answer, and removes earlier answers that it contradicts: all answers about the capability, or those about the same
    /// scope entry. A repeated answer is stored once.
    pub fn answer(&mut self, answer: StoredAnswer) {
        let places = places_of(&answer);
        self.answers.retain_mut(|known| {
            if known.capability != answer.capability || known.allowed == answer.allowed {
                return true;
            }
            // Allowing one scope entry leaves a denial of the whole capability in force.
            let goes = answer.scope.is_none() || (known.scope.is_none() && !known.allowed);
            !goes && places.iter().all(|place| !take_place(known, place))
        });
        let same = |known: &StoredAnswer| {
            (&known.capability, &known.methods, &known.scope) == (&answer.capability, &answer.methods, &answer.scope)
        };
        self.answers.retain(|known| !same(known));
        self.answers.push(answer);
    }

    /// Removes answers and returns their number: all answers, the answers about one capability (`read`), or those about one scope
    /// entry (`read:/etc/hosts`).
    pub fn revoke(&mut self, which: Option<&str>) -> usize {
        let mut count = 0;
        self.answers.retain_mut(|answer| {
            let capability = answer.capability.as_str();
            let place = match which {
                None => None,
                Some(which) if which == capability => None,
                Some(which) => match which.strip_prefix(capability).and_then(|rest| rest.strip_prefix(':')) {
                    Some(place) => Some(place),
                    None => return true,
                },
            };
            let Some(place) = place else {
                count += 1;
                return false;
            };
            let places = places_of(answer).len();
            let is_empty = take_place(answer, place);
            count += usize::from(is_empty || places_of(answer).len() < places);
            !is_empty
        });
        count
    }

    /// Returns the grants that result from the answers.
    pub fn grants(&self) -> Vec<Grant> {
        let allowed = self.answers.iter().enumerate().filter(|(_, answer)| answer.allowed);
        allowed
            .map(|(index, answer)| Grant {
                id: format!("grants:{index}:{}", answer.capability),
                capability: answer.capability.clone(),
                methods: answer.methods.clone(),
                scope: answer.scope.clone(),
                unasked: answer.by == By::Unattended,
            })
            .collect()
    }

    /// Returns the permanent denials. The id of each is its argument for `pi ext grants revoke`.
    pub fn never(&self) -> Vec<Grant> {
        let never = self.answers.iter().filter(|answer| !answer.allowed);
        never.flat_map(StoredAnswer::refusals).collect()
    }

    /// Returns whether the user permanently denied the whole capability, or every scope entry of a request.
    pub fn refuses(&self, request: &CapabilityRequest) -> bool {
        refuses(&self.never(), request)
    }
}

/// Returns whether permanent denials cover a request: its whole capability, or each of its scope entries.
pub fn refuses(never: &[Grant], request: &CapabilityRequest) -> bool {
    let of_it = || never.iter().filter(|refused| refused.capability == request.capability);
    let places = crate::requests::as_grants(request);
    of_it().any(|refused| refused.scope.is_none())
        || (!places.is_empty() && places.iter().all(|place| of_it().any(|refused| refused.id == *place)))
}

impl StoredAnswer {
    /// Splits the answer into one denial for each scope entry.
    fn refusals(&self) -> Vec<Grant> {
        let capability = &self.capability;
        let one = |id: String, scope: Option<Scope>| Grant {
            id,
            capability: capability.clone(),
            methods: None,
            scope,
            unasked: false,
        };
        let Some(scope) = &self.scope else { return vec![one(capability.to_string(), None)] };
        let mut refusals = Vec::new();
        let mut add = |list: &Option<Vec<String>>, of: fn(Option<Vec<String>>) -> Scope| {
            for place in list.iter().flatten() {
                refusals.push(one(format!("{capability}:{place}"), Some(of(Some(vec![place.clone()])))));
            }
        };
        add(&scope.paths, |paths| Scope { paths, ..Scope::default() });
        add(&scope.hosts, |hosts| Scope { hosts, ..Scope::default() });
        add(&scope.commands, |commands| Scope { commands, ..Scope::default() });
        add(&scope.env, |env| Scope { env, ..Scope::default() });
        add(&scope.tools, |tools| Scope { tools, ..Scope::default() });
        refusals
    }
}

fn lists(scope: &mut Scope) -> [&mut Option<Vec<String>>; 5] {
    [&mut scope.paths, &mut scope.hosts, &mut scope.commands, &mut scope.env, &mut scope.tools]
}

/// Returns the scope entries of an answer, as written.
fn places_of(answer: &StoredAnswer) -> Vec<String> {
    let mut scope = answer.scope.clone().unwrap_or_default();
    lists(&mut scope).into_iter().flat_map(|list| list.take().unwrap_or_default()).collect()
}

/// Removes a scope entry from an answer; returns whether the answer is then empty.
fn take_place(answer: &mut StoredAnswer, place: &str) -> bool {
    let Some(scope) = &mut answer.scope else { return false };
    let mut has_had = false;
    for list in lists(scope).into_iter().flatten() {
        let before = list.len();
        list.retain(|known| known != place);
        has_had |= list.len() < before;
    }
    has_had && lists(scope).into_iter().all(|list| list.as_ref().is_none_or(Vec::is_empty))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::parse_declared;
    use serde_json::json;

    fn asks(value: serde_json::Value) -> CapabilityManifest {
        parse_declared(&value).expect("well-formed").manifest
    }

    fn answer(capability: &str, allowed: bool) -> StoredAnswer {
        StoredAnswer {
            capability: capability.into(),
            methods: None,
            scope: None,
            allowed,
            by: By::Install,
            at: "2026-01-01T00:00:00.000Z".into(),
        }
    }

    #[test]
    fn answers_are_bound_to_code_and_requests() {
        let (none, one, two) = (asks(json!([])), asks(json!(["exec"])), asks(json!(["exec", "http"])));
        let record = PackageRecord::new(CurrentPackage { code: "a", asked: &one, local: false });
        let standing = |code, asked, local| record.standing(CurrentPackage { code, asked, local });
        assert_eq!(standing("a", &one, false), AnswerValidity::Holds);
        assert_eq!(standing("b", &one, false), AnswerValidity::Changed);
        assert_eq!(standing("b", &one, true), AnswerValidity::Holds);
        assert_eq!(standing("b", &none, true), AnswerValidity::Holds);
        let more = vec![two.capabilities[1].clone()];
        assert_eq!(standing("b", &two, false), AnswerValidity::Widened(more.clone()));
        assert_eq!(standing("b", &two, true), AnswerValidity::Widened(more));
    }

    #[test]
    fn an_update_without_new_requests_keeps_answers_and_drops_tools() {
        let (one, two) = (asks(json!(["exec"])), asks(json!(["exec", "http"])));
        let mut record = PackageRecord::new(CurrentPackage { code: "a", asked: &two, local: false });
        record.answer(answer("exec", true));
        record.tools.insert("run".into(), "sha256:00".into());
        let updated = CurrentPackage { code: "b", asked: &one, local: false };
        record.bind(updated);
        assert_eq!(
            (record.standing(updated), record.grants().len(), record.tools.len()),
            (AnswerValidity::Holds, 1, 0)
        );
        // A capability that the update dropped counts as additional if it is requested again.
        let more = vec![two.capabilities[1].clone()];
        assert_eq!(
            record.standing(CurrentPackage { code: "c", asked: &two, local: false }),
            AnswerValidity::Widened(more)
        );
    }

    #[test]
    fn the_latest_answer_about_a_capability_applies_and_can_be_revoked() {
        let none = asks(json!([]));
        let mut record = PackageRecord::new(CurrentPackage { code: "a", asked: &none, local: false });
        let held = |record: &PackageRecord| {
            let name = |capability: &Capability| capability.as_str().to_owned();
            let yes: Vec<String> = record.grants().iter().map(|grant| name(&grant.capability)).collect();
            (yes, record.never().iter().map(|refused| refused.id.clone()).collect::<Vec<_>>())
        };
        let words = |yes: &[&str], never: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
            (owned(yes), owned(never))
        };
        record.answer(answer("exec", true));
        record.answer(answer("exec", true));
        record.answer(answer("http", true));
        assert_eq!(held(&record), words(&["exec", "http"], &[]));
        // Answers with different scopes are both valid.
        let scope = Some(Scope { hosts: Some(vec!["x.org".into()]), ..Scope::default() });
        record.answer(StoredAnswer { scope, ..answer("http", true) });
        assert_eq!(held(&record), words(&["exec", "http", "http"], &[]));
        record.answer(answer("exec", false));
        assert_eq!(held(&record), words(&["http", "http"], &["exec"]));
        record.answer(answer("exec", true));
        assert_eq!(held(&record), words(&["http", "http", "exec"], &[]));
        assert_eq!((record.revoke(Some("http")), held(&record)), (2, words(&["exec"], &[])));
        record.answer(answer("env", false));
        assert_eq!((record.revoke(None), held(&record)), (2, words(&[], &[])));
    }

    #[test]
    fn an_answer_about_one_scope_entry_is_revoked_or_replaced_alone() {
        let none = asks(json!([]));
        let mut record = PackageRecord::new(CurrentPackage { code: "a", asked: &none, local: false });
        let about = |paths: &[&str], allowed: bool| {
            let paths = Some(paths.iter().map(|path| (*path).to_owned()).collect());
            StoredAnswer { scope: Some(Scope { paths, ..Scope::default() }), ..answer("read", allowed) }
        };
        let never = |record: &PackageRecord| record.never().into_iter().map(|refused| refused.id).collect::<Vec<_>>();
        record.answer(answer("read", true));
        record.answer(about(&["/a"], false));
        record.answer(about(&["/b", "/c:d"], false));
        assert_eq!(
            (record.grants().len(), never(&record)),
            (1, vec!["read:/a".into(), "read:/b".into(), "read:/c:d".into()])
        );
        assert!(record.refuses(&CapabilityRequest {
            capability: "read".into(),
            methods: None,
            scope: about(&["/a", "/b"], false).scope
        }));
        assert!(!record.refuses(&CapabilityRequest { capability: "read".into(), methods: None, scope: None }));
        assert_eq!((record.revoke(Some("read:/c:d")), never(&record)), (1, vec!["read:/a".into(), "read:/b".into()]));
        assert_eq!((record.revoke(Some("read:/x")), record.revoke(Some("write:/a"))), (0, 0));
        // Allowing a scope entry removes its denial.
        record.answer(about(&["/a"], true));
        assert_eq!((record.grants().len(), never(&record)), (2, vec!["read:/b".to_owned()]));
        record.answer(answer("read", true));
        assert_eq!(never(&record), Vec::<String>::new(), "all of it");
        record.answer(answer("read", false));
        assert_eq!((record.grants().len(), never(&record)), (0, vec!["read".to_owned()]));
    }

    #[test]
    fn unattended_answers_stay_marked() {
        let none = asks(json!([]));
        let mut record = PackageRecord::new(CurrentPackage { code: "a", asked: &none, local: false });
        record.answer(StoredAnswer { by: By::Unattended, ..answer("exec", true) });
        record.answer(answer("http", true));
        let unasked: Vec<bool> = record.grants().iter().map(|grant| grant.unasked).collect();
        assert_eq!(unasked, [true, false]);
        let all = [By::Install, By::Yes, By::Unattended, By::Prompt, By::Command];
        let mut words: Vec<&str> = all.iter().map(|by| by.words()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), all.len());
    }

    /// The grant store contains these digests: a changed digest prompts every user again.
    #[test]
    fn digests_are_distinct_and_stable() {
        let digest_of = |files: &[(&str, &str)]| {
            code_digest(&files.iter().map(|(name, digest)| ((*name).to_owned(), (*digest).to_owned())).collect())
        };
        let one = digest_of(&[("a.ts", "1"), ("b.ts", "2")]);
        assert_eq!(one, "sha256:92895f6b6b4c136209237dd5764aa2d405eb3767c02e394f4aaade9e3b1df334");
        for other in [&[("a.ts", "1")][..], &[("a.ts", "2"), ("b.ts", "1")], &[("a.ts1", ""), ("b.ts", "2")]] {
            assert_ne!(digest_of(other), one);
        }
        assert_eq!(
            digest(&asks(json!(["exec"]))),
            "sha256:7f9591f149fcae851d653f7893903c35ceaabc98ddc69191a449c90eb83f12b3"
        );
        assert_ne!(digest(&asks(json!(["exec", "http"]))), digest(&asks(json!(["exec"]))));
        let spec = |value: serde_json::Value| serde_json::from_value::<ToolSpec>(value).expect("a tool");
        let tool = json!({"name": "run", "label": "Run", "description": "Runs.", "parameters": {}, "handle": 1});
        let told = tool_digest(&spec(tool.clone()));
        assert_eq!(told, "sha256:7b39f1cf86eba6a9a3c20e1e25dd9b9c92a76ffb2e4f99fd2e9b99f0eed0450b");
        let mut other = tool.clone();
        other["handle"] = json!(2);
        assert_eq!(tool_digest(&spec(other)), told, "a handle is nothing that a model is told");
        for (member, value) in [
            ("name", json!("ran")),
            ("label", json!("Ran")),
            ("description", json!("Ran.")),
            ("parameters", json!({"type": "object"})),
            ("prompt_snippet", json!("x")),
            ("prompt_guidelines", json!(["x"])),
        ] {
            let mut other = tool.clone();
            other[member] = value;
            assert_ne!(tool_digest(&spec(other)), told, "{member}");
        }
    }

    #[test]
    fn a_store_with_unknown_members_is_refused() {
        let known = json!({"version": 1, "packages": {}});
        assert_eq!(serde_json::from_value::<GrantStore>(known).expect("a book"), GrantStore::default());
        for strange in [json!({"version": 1, "packages": {}, "also": 1}), json!({"packages": {}})] {
            assert!(serde_json::from_value::<GrantStore>(strange).is_err());
        }
    }
}
