//! The gate, which decides whether an extension may make a call.
//!
//! [`Gate::judge`] evaluates a fixed list of rules; the first that applies decides:
//!
//! 1. the deny list of the policy, or a permanent denial of the user ([`Never`]): denied;
//! 2. a protected path (see [`crate::places`]): denied, in every mode;
//! 3. a call that needs no consent: allowed;
//! 4. a grant of the extension that covers capability, method and subject, or reading a file that the extension created
//!    ([`created_files`]): allowed;
//! 5. a default capability of the policy: allowed;
//! 6. permissive mode: allowed, with a warning in the ledger;
//! 7. prompt mode, with a user: a prompt, unless the call is about unset variables only;
//! 8. otherwise: denied.
//!
//! In addition, after an extension read a file with possible secrets, contacting a server needs a prompt or the capability
//! `egress`, except in permissive mode.
//!
//! **Without consent** an extension may only: read the project folder, its own package and the `.pi` folders; read the variables
//! of [`PLAIN_ENV`](crate::vocabulary::PLAIN_ENV); use the log, UI, its own session entries and modules, events on the bus and
//! timers; use a file handle that was decided when it was opened.
//!
//! A connector that resolves something new (a link's target, a redirect, the program of a name) asks the [`Permit`], which
//! evaluates the same list without rule 7.

use crate::caller::{Caller, During, Profile};
use crate::decision::{Decision, Reason, Rule};
use crate::derive::ParsedCall;
use crate::places::Places;
use crate::policy::{Grant, Mode, Policy, usual_paths};
use crate::prompt::{AnswerStore, Prompter, Question};
use crate::risk::{Evidence, Signal};
use crate::scope::{CompiledScope, ScopeError};
use crate::spilled::SpilledResults;
use crate::subject::{Access, Required, Subject};
use crate::variables::{HostVariables, Variable, VariableEffect};
use crate::vocabulary::is_free_variable;
use pijs_protocol::manifest::CapabilityRequest;
use pijs_protocol::{Capability, ExtensionId, HostcallError, Method, guard};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

mod created_files;
mod evaluation;
mod extension_code;
mod listeners;
mod permit;
mod prompting;
mod refusals;
mod sessions;
mod sockets;

pub use created_files::{MAX_CREATED, MadeFiles, ReadBy, Stamp};
pub use listeners::Listening;
pub use permit::{CommandLimits, ModelCall, Permit};
pub use prompting::{MAX_WAITING, MUTED_AFTER};
pub use refusals::CURE;
pub use sessions::SessionFiles;

use evaluation::Evaluation;

/// Blocks a synchronous call until a prompt's future is ready. The host provides it, because only the driver can block; a host
/// that cannot block drops the future.
pub type BlockOn = dyn Fn(crate::task::BoxFuture<'_, ()>) + Send + Sync;

/// Returns the file that a command runs in this working folder, for display in prompts.
pub type LocateProgram = dyn Fn(&str, Option<&str>) -> Option<PathBuf> + Send + Sync;

/// Returns the lines in which an MCP server describes one of its tools, for display in prompts.
pub type DescribeMcpTool = dyn Fn(&str) -> Vec<String> + Send + Sync;

/// Decides calls. Cheap to clone.
#[derive(Clone)]
pub struct Gate {
    inner: Arc<GateInner>,
}

struct GateInner {
    policy: Policy,
    places: Places,
    services: HostServices,
    host: HostVariables,
    prompts: prompting::PromptQueue,
    sessions: sessions::SessionAccess,
    listeners: listeners::Listeners,
    code: extension_code::ExtensionCode,
    made: created_files::CreatedFiles,
    refusals: refusals::Refusals,
    extensions: RwLock<BTreeMap<ExtensionId, Arc<Authority>>>,
    taint: Taint,
}

/// Services of the host; the setters of [`GateBuilder`] document the behaviour without each of them.
#[derive(Default)]
struct HostServices {
    prompter: Option<Arc<dyn Prompter>>,
    block_on: Option<Arc<BlockOn>>,
    memory: Option<Arc<dyn AnswerStore>>,
    programs: Option<Arc<LocateProgram>>,
    mcp_tools: Option<Arc<DescribeMcpTool>>,
    exists: Option<Arc<Exists>>,
    results: Option<SpilledResults>,
    /// Names of the environment variables that are set.
    variables: Option<BTreeSet<String>>,
}

/// Taint: sensitive or external data that extensions have received.
#[derive(Default)]
struct Taint {
    /// The first file with possible secrets that each extension has read.
    secrets: Mutex<BTreeMap<ExtensionId, String>>,
    /// Extensions that have received data from a server or a program.
    outside: Mutex<BTreeSet<ExtensionId>>,
}

/// The authority of one extension.
#[derive(Debug, Clone, Default)]
struct Authority {
    grants: Vec<GateGrant>,
    /// Grants that the user gave for calls of the model after messages of the extension.
    for_model: Vec<GateGrant>,
    defaults: Vec<GateGrant>,
    never: Vec<Never>,
    /// Further requests of the extension, which a user may grant together.
    requested: Vec<CapabilityRequest>,
    evidence: Evidence,
}

/// A snapshot of an extension's authority.
#[derive(Debug, Clone)]
pub struct AuthoritySnapshot(Arc<Authority>);

#[derive(Debug, Clone)]
struct GateGrant {
    id: Arc<str>,
    capability: Capability,
    methods: Option<Vec<String>>,
    scope: CompiledScope,
    unasked: bool,
}

/// A permanent denial by the user.
///
/// A denied path includes everything below it, like a granted path. A more specific permission takes precedence: *never read `/`*
/// leaves the project readable, and *never read `/etc/x`* overrides a grant of `/etc`.
#[derive(Debug, Clone)]
struct Never {
    capability: Capability,
    /// Scope of the denial; `None` denies the whole capability.
    scope: Option<CompiledScope>,
    /// Argument of `pi ext grants revoke` for this denial; `None` if it ends with the session.
    text: Option<String>,
}

/// Returns whether a file exists at an absolute path.
pub type Exists = dyn Fn(&Path) -> bool + Send + Sync;

/// Builds a [`Gate`].
pub struct GateBuilder {
    policy: Policy,
    places: Places,
    services: HostServices,
    environment: BTreeMap<String, String>,
    sessions: sessions::SessionAccess,
    made: created_files::CreatedFiles,
}

impl GateBuilder {
    /// Sets the project's session folder and the source of the session's files. Without them all session files are protected.
    #[must_use]
    pub fn sessions(mut self, folder: impl Into<PathBuf>, files: Arc<dyn SessionFiles>) -> Self {
        self.sessions = sessions::SessionAccess::new(folder.into(), files);
        self
    }

    /// Sets the store of files that extensions created; without it the gate knows them for the session only.
    #[must_use]
    pub fn made_files(mut self, kept: Arc<dyn MadeFiles>) -> Self {
        self.made = created_files::CreatedFiles::new(kept);
        self
    }

    /// Sets the names of the environment variables that exist. Reading only variables that are not set does not prompt: after any
    /// answer the extension would see that they are not set.
    #[must_use]
    pub fn variables(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.services.variables = Some(names.into_iter().collect());
        self
    }

    /// Sets the host's environment, which programs may get unchanged. Sets the names as [`GateBuilder::variables`] does.
    #[must_use]
    pub fn environment(mut self, environment: BTreeMap<String, String>) -> Self {
        self.services.variables = Some(environment.keys().cloned().collect());
        self.environment = environment;
        self
    }

    /// Sets the resolver of commands to files, for display in prompts.
    #[must_use]
    pub fn programs(mut self, locate: Arc<LocateProgram>) -> Self {
        self.services.programs = Some(locate);
        self
    }

    /// Sets the source of MCP tool descriptions, for display in prompts.
    #[must_use]
    pub fn mcp_tools(mut self, describe: Arc<DescribeMcpTool>) -> Self {
        self.services.mcp_tools = Some(describe);
        self
    }

    /// Sets the check for existing files. A call that only reveals the kind of a file ([`Required::is_probe`]) does not prompt
    /// for a path without a file: it is refused as after a denial.
    #[must_use]
    pub fn exists(mut self, exists: Arc<Exists>) -> Self {
        self.services.exists = Some(exists);
        self
    }

    /// Sets the folder of long results. The model may read the results of its session, also in turns that an extension's message
    /// started.
    #[must_use]
    pub fn results(mut self, results: SpilledResults) -> Self {
        self.services.results = Some(results);
        self
    }

    /// Sets the prompter; without it calls that need a prompt are denied.
    #[must_use]
    pub fn prompter(mut self, prompter: Arc<dyn Prompter>) -> Self {
        self.services.prompter = Some(prompter);
        self
    }

    /// Sets how a synchronous call blocks on a prompt; without it such a call is denied.
    #[must_use]
    pub fn block_on(mut self, block_on: Arc<BlockOn>) -> Self {
        self.services.block_on = Some(block_on);
        self
    }

    /// Sets the store of answers that outlive the session; without it they last for the session.
    #[must_use]
    pub fn memory(mut self, memory: Arc<dyn AnswerStore>) -> Self {
        self.services.memory = Some(memory);
        self
    }

    /// Builds the gate.
    pub fn build(self) -> Gate {
        let host = HostVariables::new(self.environment, &self.places.agent_dir);
        Gate {
            inner: Arc::new(GateInner {
                policy: self.policy,
                places: self.places,
                services: self.services,
                host,
                prompts: prompting::PromptQueue::default(),
                sessions: self.sessions,
                listeners: listeners::Listeners::default(),
                code: extension_code::ExtensionCode::default(),
                made: self.made,
                refusals: refusals::Refusals::default(),
                extensions: RwLock::default(),
                taint: Taint::default(),
            }),
        }
    }
}

/// The result of [`Gate::judge`].
#[derive(Debug, Clone, PartialEq)]
pub enum Judgement {
    /// The call is decided.
    Settled(Decision),
    /// The user decides. The decision is the one that applies without an answer.
    Ask(Box<Question>, Decision),
}

impl Gate {
    /// Returns a builder for the gate of one session.
    pub fn builder(policy: Policy, places: Places) -> GateBuilder {
        GateBuilder {
            policy,
            places,
            services: HostServices::default(),
            environment: BTreeMap::new(),
            sessions: sessions::SessionAccess::default(),
            made: created_files::CreatedFiles::default(),
        }
    }

    /// Returns the session's folders.
    pub fn places(&self) -> &Places {
        &self.inner.places
    }

    /// Returns whether there is a user to prompt.
    pub fn has_person(&self) -> bool {
        self.inner.services.prompter.is_some()
    }

    /// Returns the folder of long results, if there is one.
    pub fn results(&self) -> Option<&SpilledResults> {
        self.inner.services.results.as_ref()
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Policy {
        &self.inner.policy
    }

    /// Sets the grants of an extension, before its first call. Replaces earlier ones.
    pub fn set_grants(&self, profile: &Profile, grants: &[Grant], evidence: Evidence) -> Result<(), ScopeError> {
        let compile = |grant: &Grant| self.compile(grant, profile.package_root.as_deref());
        let defaults = self.inner.policy.default_caps.iter().map(|capability| {
            let files = matches!(capability.as_str(), "read" | "write");
            let scope = files.then(usual_paths);
            compile(&Grant { scope, ..Grant::any(format!("default:{capability}"), capability.as_str()) })
        });
        let authority = Authority {
            grants: grants.iter().map(compile).collect::<Result<_, _>>()?,
            for_model: Vec::new(),
            defaults: defaults.collect::<Result<_, _>>()?,
            never: Vec::new(),
            requested: Vec::new(),
            evidence,
        };
        self.extensions_mut(|extensions| {
            extensions.insert(profile.extension.clone(), Arc::new(authority));
        });
        Ok(())
    }

    /// Adds grants to an extension.
    ///
    /// # Errors
    ///
    /// Fails for an invalid scope, without adding anything.
    pub fn add_grants(&self, profile: &Profile, grants: &[Grant]) -> Result<(), ScopeError> {
        let compile = |grant: &Grant| self.compile(grant, profile.package_root.as_deref());
        let compiled = grants.iter().map(compile).collect::<Result<Vec<_>, _>>()?;
        self.change(profile, |authority| authority.grants.extend(compiled));
        Ok(())
    }

    /// Sets the permanent denials of an extension; call it after [`Gate::set_grants`]. The id of each denial is its argument for
    /// `pi ext grants revoke`. A denial with an invalid scope denies the whole capability.
    pub fn set_never(&self, profile: &Profile, never: &[Grant]) {
        let compile = |grant: &Grant| {
            let compiled = self.compile(grant, profile.package_root.as_deref());
            let scope = compiled.ok().filter(|_| grant.scope.is_some()).map(|compiled| compiled.scope);
            Never { capability: grant.capability.clone(), scope, text: Some(grant.id.clone()) }
        };
        let never = never.iter().map(compile).collect();
        self.change(profile, |authority| authority.never = never);
    }

    /// Takes a snapshot of an extension's authority, for [`Gate::restore`].
    pub fn held(&self, profile: &Profile) -> AuthoritySnapshot {
        AuthoritySnapshot(self.authority(profile))
    }

    /// Restores a snapshot of an extension's authority.
    pub fn restore(&self, profile: &Profile, held: AuthoritySnapshot) {
        self.extensions_mut(|extensions| {
            extensions.insert(profile.extension.clone(), held.0);
        });
    }

    /// Sets the requests of an extension beyond its grants; call it after [`Gate::set_grants`]. A prompt about one of them offers
    /// to grant all of them.
    pub fn set_wanted(&self, profile: &Profile, requested: Vec<CapabilityRequest>) {
        self.change(profile, |authority| authority.requested = requested);
    }

    /// Checks that the scope of a grant is valid.
    pub fn check(&self, profile: &Profile, grant: &Grant) -> Result<(), ScopeError> {
        self.compile(grant, profile.package_root.as_deref()).map(drop)
    }

    fn compile(&self, grant: &Grant, package_root: Option<&Path>) -> Result<GateGrant, ScopeError> {
        let scope = grant.fitting_scope();
        Ok(GateGrant {
            id: grant.id.as_str().into(),
            capability: grant.capability.clone(),
            methods: grant.methods.clone(),
            unasked: grant.unasked,
            scope: CompiledScope::compile(scope.as_ref(), &self.inner.places, package_root)?,
        })
    }

    fn extensions_mut(&self, change: impl FnOnce(&mut BTreeMap<ExtensionId, Arc<Authority>>)) {
        change(&mut self.inner.extensions.write().unwrap_or_else(PoisonError::into_inner));
    }

    fn authority(&self, profile: &Profile) -> Arc<Authority> {
        let extensions = self.inner.extensions.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(authority) = extensions.get(&profile.extension) {
            return Arc::clone(authority);
        }
        drop(extensions);
        // The policy's defaults also apply to an extension without grants. The default scopes are built in and always compile.
        let _ = self.set_grants(profile, &[], Evidence::default());
        let extensions = self.inner.extensions.read().unwrap_or_else(PoisonError::into_inner);
        extensions.get(&profile.extension).cloned().unwrap_or_default()
    }

    /// Decides a call as far as possible without a prompt. Returns an error when a path of the subject is malformed.
    pub fn judge(&self, caller: &Caller, method: &str, required: &Required<'_>) -> Result<Judgement, HostcallError> {
        self.judge_with(&self.authority(&caller.profile), caller, method, required)
    }

    /// Decides like [`Gate::judge`], and also returns the permit for the connector.
    pub(crate) fn judge_call(
        &self,
        caller: &Caller,
        method: &Method,
        required: &Required<'_>,
    ) -> Result<(Judgement, Permit), HostcallError> {
        let authority = self.authority(&caller.profile);
        let judgement = self.judge_with(&authority, caller, method, required)?;
        let (gate, profile, method) = (self.clone(), Arc::clone(&caller.profile), method.clone());
        Ok((judgement, Permit { gate, profile, authority, method, once: Vec::new(), model: None, also: Vec::new() }))
    }

    fn judge_with(
        &self,
        authority: &Arc<Authority>,
        caller: &Caller,
        method: &str,
        required: &Required<'_>,
    ) -> Result<Judgement, HostcallError> {
        let authority = &Self::of_caller(authority, caller);
        let case = Evaluation { inner: &self.inner, profile: &caller.profile, authority, method };
        let decision = match case.decide(required)? {
            Ok(rule) => match self.after_secret(&case, required) {
                None => return Ok(Judgement::Settled(case.allowed(required, rule))),
                Some(refusal) => case.denied(required, refusal),
            },
            Err(refusal) => case.denied(required, refusal),
        };
        let mode = self.inner.policy.mode;
        let may_ask = decision.reason.is_some_and(Reason::can_be_asked)
            && (mode == Mode::Prompt || decision.rule == Rule::AfterSecret);
        if !may_ask {
            return Ok(Judgement::Settled(decision));
        }
        if caller.during == During::Verdict && guard!(GateVerdict) {
            return Ok(Judgement::Settled(decision.because(Reason::NonInteractive, Rule::Verdict)));
        }
        let says_more = decision.rule == Rule::AfterSecret || decision.reason == Some(Reason::BlockedAddress);
        if self.inner.services.prompter.is_none() && says_more {
            return Ok(Judgement::Settled(decision));
        }
        if self.inner.services.prompter.is_none() {
            return Ok(Judgement::Settled(decision.because(Reason::NonInteractive, Rule::NoPerson)));
        }
        // A probe succeeds only with a grant.
        if matches!(required.subject, Subject::Code { .. }) && required.is_probe {
            return Ok(Judgement::Settled(Decision { rule: Rule::Unset, ..decision }));
        }
        if let (Subject::Names(names), Some(set)) = (&required.subject, &self.inner.services.variables)
            && !names.iter().any(|name| set.contains(*name) && !is_free_variable(name))
        {
            return Ok(Judgement::Settled(Decision { rule: Rule::Unset, ..decision }));
        }
        if let Subject::Paths(used, None) = &required.subject
            && used.access == Access::Look
            && self.inner.places.is_search_above(&self.inner.places.absolute(*used)?)
        {
            return Ok(Judgement::Settled(decision));
        }
        if let (Subject::Paths(used, None), Some(exists)) = (&required.subject, &self.inner.services.exists)
            && (used.access == Access::Look || required.is_probe)
            && !exists(&self.inner.places.absolute(*used)?)
        {
            return Ok(Judgement::Settled(Decision { rule: Rule::Unset, ..decision }));
        }
        let question = self.question(caller, authority, required, &decision);
        Ok(Judgement::Ask(Box::new(question), decision))
    }

    /// Returns the authority of a caller; for a call of the model it includes the grants for such calls.
    fn of_caller(authority: &Arc<Authority>, caller: &Caller) -> Arc<Authority> {
        if caller.during != During::Model || authority.for_model.is_empty() {
            return Arc::clone(authority);
        }
        let mut both = Authority::clone(authority);
        let Authority { grants, for_model, .. } = &mut both;
        grants.append(for_model);
        Arc::new(both)
    }

    /// Derives the requirement of a call, with the variables of the program that are the host's own, and its input.
    pub(crate) fn derive<'a>(&self, call: &'a ParsedCall) -> Result<Required<'a>, HostcallError> {
        let mut required = call.required()?;
        if let Subject::Program { command, args, given, .. } = &mut required.subject {
            let is_own = |variable: &&mut Variable<'_>| self.inner.host.has(variable.name, variable.value);
            given.variables.iter_mut().filter(is_own).for_each(|own| own.effect = VariableEffect::Harmless);
            given.input = call.input(given.input_use(command, args));
        }
        Ok(required)
    }

    /// Returns the decision about a capability without a hostcall (`verdict`, `tool.modify`, `provider`, ...). Never prompts.
    pub fn holds(&self, caller: &Caller, capability: &'static str) -> Decision {
        let required = Required::new(capability, Subject::None);
        match self.judge(caller, "", &required) {
            Ok(Judgement::Settled(decision)) | Ok(Judgement::Ask(_, decision)) => decision,
            Err(error) => unreachable!("a subject without a path has no malformed path: {error}"),
        }
    }

    /// Returns whether an extension has a capability without a hostcall by a grant that was given without a prompt.
    pub fn holds_unasked(&self, profile: &Profile, capability: &str) -> bool {
        let authority = self.authority(profile);
        let of_it = |grant: &&GateGrant| grant.capability.as_str() == capability;
        let mut held = authority.grants.iter().chain(&authority.defaults).filter(of_it).peekable();
        held.peek().is_some() && held.all(|grant| grant.unasked)
    }

    /// Requires consent for the first request to a server after the extension read a file with possible secrets, even with grants
    /// for both: the combination exfiltrates files. Permissive mode and the capability `egress` bypass this check.
    fn after_secret(&self, case: &Evaluation<'_>, required: &Required<'_>) -> Option<evaluation::Denial> {
        if required.capability != "http" || self.inner.policy.mode == Mode::Permissive {
            return None;
        }
        self.secret_read(&case.profile.extension)?;
        if let Some(refusal) = case.denied_outright("egress") {
            return Some(refusal);
        }
        if case.by_grant("egress", |_| true).is_ok() || !guard!(GateAfterSecret) {
            return None;
        }
        Some(evaluation::Denial { reason: Reason::AfterSecret, rule: Rule::AfterSecret })
    }

    /// Returns whether an extension has read a file with possible secrets.
    pub fn has_read_secrets(&self, extension: &ExtensionId) -> bool {
        self.secret_read(extension).is_some()
    }

    fn secret_read(&self, extension: &ExtensionId) -> Option<String> {
        self.inner.taint.secrets.lock().unwrap_or_else(PoisonError::into_inner).get(extension).cloned()
    }

    /// Records that the content of a file was read.
    pub(crate) fn note_read(&self, extension: &ExtensionId, path: &str) {
        if crate::places::may_hold_secrets(path) {
            self.note_secret(extension, path);
        }
    }

    /// Records that the extension read data that may contain secrets.
    pub(crate) fn note_secret(&self, extension: &ExtensionId, path: &str) {
        let mut secrets = self.inner.taint.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        secrets.entry(extension.clone()).or_insert_with(|| path.to_owned());
    }

    /// Records that an extension may have received data from a server or a program.
    pub(crate) fn note_outside(&self, extension: &ExtensionId) {
        let mut outside = self.inner.taint.outside.lock().unwrap_or_else(PoisonError::into_inner);
        if !outside.contains(extension) {
            outside.insert(extension.clone());
        }
    }

    /// Returns whether an extension has received no data from any server or program, so that its text comes from code that the
    /// user consented to, and from its environment. Always false under the strict policy.
    pub fn speaks_for_itself(&self, extension: &ExtensionId) -> bool {
        let outside = self.inner.taint.outside.lock().unwrap_or_else(PoisonError::into_inner);
        self.inner.policy.mode != Mode::Strict && !outside.contains(extension)
    }

    /// Adds a signal from a call to the evidence about an extension.
    pub(crate) fn observe(&self, profile: &Profile, signal: Signal) {
        let authority = self.authority(profile);
        if !authority.evidence.has(signal) {
            let mut authority = (*authority).clone();
            authority.evidence.add(signal);
            self.extensions_mut(|extensions| {
                extensions.insert(profile.extension.clone(), Arc::new(authority));
            });
        }
    }

    /// Returns whether the code of an extension was scanned without finding this capability.
    pub(crate) fn was_unforeseen(&self, profile: &Profile, capability: &str) -> bool {
        self.authority(profile).evidence.not_foreseen(capability)
    }

    /// Returns the current evidence about an extension, including signals from its calls.
    pub fn evidence(&self, profile: &Profile) -> Evidence {
        self.authority(profile).evidence.clone()
    }

    /// Returns the permit of a caller, for a connector to check resolved subjects.
    pub fn permit(&self, caller: &Caller, method: &str) -> Permit {
        Permit {
            gate: self.clone(),
            profile: Arc::clone(&caller.profile),
            authority: Self::of_caller(&self.authority(&caller.profile), caller),
            method: method.into(),
            once: Vec::new(),
            model: None,
            also: Vec::new(),
        }
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate")
            .field("policy", &self.inner.policy)
            .field("places", &self.inner.places)
            .finish_non_exhaustive()
    }
}
