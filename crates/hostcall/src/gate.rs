//! The decision: may this extension make this call?
//!
//! [`Gate::judge`] goes down a fixed list and stops at the first line that applies:
//!
//! 1. the deny list of the policy, or a *never* of this session: denied;
//! 2. a protected place (see [`crate::places`]): denied, in every mode;
//! 3. what works without asking: allowed;
//! 4. a grant of the extension that covers capability, method and subject: allowed;
//! 5. a default capability of the policy: allowed;
//! 6. permissive mode: allowed, with a warning in the ledger;
//! 7. prompt mode, and somebody to ask: a question;
//! 8. otherwise: denied.
//!
//! **What works without asking**, and nothing else: reading the project folder, the own package
//! and the `.pi` folders; the variables of [`PLAIN_ENV`](crate::vocabulary::PLAIN_ENV); log, UI,
//! own session entries, own modules, events on the bus, waiting; using a file handle that was
//! decided when it was opened.
//!
//! Where resolution brings up something new (a link's target, a redirect, the program a name
//! stands for), the connector asks the [`Permit`], which goes down the same list without 7.

use crate::connector::{Caller, Profile};
use crate::derive::{Access, PathUse, Required, Subject};
use crate::loss::{Evidence, ExpectedLoss};
use crate::places::{Places, Protection};
use crate::policy::{Grant, Mode, Policy, usual_paths};
use crate::prompt::{Answer, Prompter, Question, shown};
use crate::scope::{CompiledScope, ScopeError};
use crate::vocabulary::{CAPABILITIES, INTERPRETERS, PLAIN_ENV};
use pijs_protocol::manifest::Scope;
use pijs_protocol::{Capability, ExtensionId, HostcallError};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

mod decision;

pub use decision::{Decision, Reason, Rule};

/// Longest subject that a prompt shows.
const SHOWN_SUBJECT: usize = 4000;

/// Waits for a person's answer on behalf of a synchronous call. The host provides it, since
/// waiting is the driver's business; `None` when it cannot wait here.
pub type BlockOn = dyn Fn(crate::connector::BoxFuture<'static, Answer>) -> Option<Answer> + Send + Sync;

/// Decides calls. Cheap to clone.
#[derive(Clone)]
pub struct Gate {
    inner: Arc<Inner>,
}

struct Inner {
    policy: Policy,
    places: Places,
    prompter: Option<Arc<dyn Prompter>>,
    block_on: Option<Arc<BlockOn>>,
    /// One question at a time.
    asking: tokio::sync::Mutex<()>,
    extensions: RwLock<BTreeMap<ExtensionId, Arc<Authority>>>,
}

/// What one extension holds.
#[derive(Debug, Clone, Default)]
struct Authority {
    grants: Vec<CompiledGrant>,
    defaults: Vec<CompiledGrant>,
    never: Vec<Capability>,
    evidence: Evidence,
}

#[derive(Debug, Clone)]
struct CompiledGrant {
    id: Arc<str>,
    capability: Capability,
    methods: Option<Vec<String>>,
    scope: CompiledScope,
}

/// Builds a [`Gate`].
pub struct GateBuilder {
    policy: Policy,
    places: Places,
    prompter: Option<Arc<dyn Prompter>>,
    block_on: Option<Arc<BlockOn>>,
}

impl GateBuilder {
    /// Who answers questions; without one they are denied.
    #[must_use]
    pub fn prompter(mut self, prompter: Arc<dyn Prompter>) -> Self {
        self.prompter = Some(prompter);
        self
    }

    /// How a synchronous call waits for an answer; without it such a call is denied.
    #[must_use]
    pub fn block_on(mut self, block_on: Arc<BlockOn>) -> Self {
        self.block_on = Some(block_on);
        self
    }

    /// The gate.
    pub fn build(self) -> Gate {
        Gate {
            inner: Arc::new(Inner {
                policy: self.policy,
                places: self.places,
                prompter: self.prompter,
                block_on: self.block_on,
                asking: tokio::sync::Mutex::new(()),
                extensions: RwLock::default(),
            }),
        }
    }
}

/// What [`Gate::judge`] found.
#[derive(Debug, Clone, PartialEq)]
pub enum Judgement {
    /// Settled.
    Settled(Decision),
    /// A person decides. The decision is what holds when nobody answers.
    Ask(Box<Question>, Decision),
}

impl Gate {
    /// A gate for one session.
    pub fn builder(policy: Policy, places: Places) -> GateBuilder {
        GateBuilder { policy, places, prompter: None, block_on: None }
    }

    /// The session's folders.
    pub fn places(&self) -> &Places {
        &self.inner.places
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.inner.policy
    }

    /// Sets what an extension holds, before its first call. Replaces what it held.
    pub fn set_grants(&self, profile: &Profile, grants: &[Grant], evidence: Evidence) -> Result<(), ScopeError> {
        let compile = |grant: &Grant| self.compile(grant, profile.package_root.as_deref());
        let defaults = self.inner.policy.default_caps.iter().map(|capability| {
            let files = matches!(capability.as_str(), "read" | "write");
            let scope = files.then(usual_paths);
            compile(&Grant { scope, ..Grant::any(format!("default:{capability}"), capability.as_str()) })
        });
        let authority = Authority {
            grants: grants.iter().map(compile).collect::<Result<_, _>>()?,
            defaults: defaults.collect::<Result<_, _>>()?,
            never: Vec::new(),
            evidence,
        };
        self.extensions_mut(|extensions| {
            extensions.insert(profile.extension.clone(), Arc::new(authority));
        });
        Ok(())
    }

    fn compile(&self, grant: &Grant, package_root: Option<&Path>) -> Result<CompiledGrant, ScopeError> {
        Ok(CompiledGrant {
            id: grant.id.as_str().into(),
            capability: grant.capability.clone(),
            methods: grant.methods.clone(),
            scope: CompiledScope::compile(grant.scope.as_ref(), &self.inner.places, package_root)?,
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
        // An extension nobody granted anything: the policy's defaults still hold for it. Its
        // default scopes are ours and compile.
        let _ = self.set_grants(profile, &[], Evidence::default());
        let extensions = self.inner.extensions.read().unwrap_or_else(PoisonError::into_inner);
        extensions.get(&profile.extension).cloned().unwrap_or_default()
    }

    /// Decides as far as no person is needed. `Err` when a path of the subject is malformed.
    pub fn judge(&self, caller: &Caller, method: &str, required: &Required<'_>) -> Result<Judgement, HostcallError> {
        let authority = self.authority(&caller.profile);
        let case = Case { inner: &self.inner, profile: &caller.profile, authority: &authority, method };
        let decision = match case.decide(required)? {
            Ok(rule) => return Ok(Judgement::Settled(case.allowed(required, rule))),
            Err(refusal) => case.denied(required, refusal),
        };
        let may_ask = self.inner.policy.mode == Mode::Prompt && decision.reason.is_some_and(Reason::can_be_asked);
        if !may_ask {
            return Ok(Judgement::Settled(decision));
        }
        if caller.during == crate::connector::During::Verdict {
            return Ok(Judgement::Settled(decision.because(Reason::NonInteractive, Rule::Verdict)));
        }
        if self.inner.prompter.is_none() {
            return Ok(Judgement::Settled(decision.because(Reason::NonInteractive, Rule::NoPerson)));
        }
        let question = case.question(required, &decision);
        Ok(Judgement::Ask(Box::new(question), decision))
    }

    /// Whether an extension holds a capability that is no hostcall (`verdict`, `tool.modify`,
    /// `provider`, ...). Never asks.
    pub fn holds(&self, caller: &Caller, capability: &'static str) -> Decision {
        let required = Required { capability, subject: Subject::None };
        match self.judge(caller, "", &required) {
            Ok(Judgement::Settled(decision)) | Ok(Judgement::Ask(_, decision)) => decision,
            Err(error) => unreachable!("a subject without a path has no malformed path: {error}"),
        }
    }

    /// Asks a person, one question at a time, and decides anew with what was answered.
    pub async fn ask(
        &self,
        caller: &Caller,
        method: &str,
        required: &Required<'_>,
    ) -> Result<(Decision, Permit), HostcallError> {
        let _one_at_a_time = self.inner.asking.lock().await;
        // An earlier answer may have settled this one.
        match self.judge(caller, method, required)? {
            Judgement::Settled(decision) => Ok((decision, self.permit(caller, method))),
            Judgement::Ask(question, decision) => {
                let Some(prompter) = self.inner.prompter.clone() else {
                    return Ok((decision, self.permit(caller, method)));
                };
                let answer = prompter.ask(*question).await;
                Ok(self.settle(caller, method, required, decision, answer))
            }
        }
    }

    /// The same for a synchronous call: waits through the closure the host gave.
    pub fn ask_blocking(
        &self,
        caller: &Caller,
        method: &str,
        required: &Required<'_>,
        question: Question,
        decision: Decision,
    ) -> (Decision, Permit) {
        let answer = match (&self.inner.prompter, &self.inner.block_on) {
            (Some(prompter), Some(block_on)) => {
                let (inner, prompter) = (Arc::clone(&self.inner), Arc::clone(prompter));
                block_on(Box::pin(async move {
                    let _one_at_a_time = inner.asking.lock().await;
                    prompter.ask(question).await
                }))
            }
            _ => None,
        };
        self.settle(caller, method, required, decision, answer.unwrap_or(Answer::NoPerson))
    }

    fn settle(
        &self,
        caller: &Caller,
        method: &str,
        required: &Required<'_>,
        denied: Decision,
        answer: Answer,
    ) -> (Decision, Permit) {
        let allowed = |rule| Decision { allowed: true, rule, reason: None, grant: None, ..denied.clone() };
        let exact = self.exact_scope(required);
        match answer {
            Answer::NoPerson => (denied.because(Reason::NonInteractive, Rule::NoPerson), self.permit(caller, method)),
            Answer::Deny => (denied.because(Reason::User, Rule::Person), self.permit(caller, method)),
            Answer::DenyAlways => {
                self.change(&caller.profile, |authority| authority.never.push(required.capability()));
                (denied.because(Reason::User, Rule::Person), self.permit(caller, method))
            }
            Answer::AllowOnce => {
                let grant = self.session_grant(required, "once", Some(exact));
                let mut permit = self.permit(caller, method);
                permit.once = grant.map(Arc::new);
                (allowed(Rule::Person), permit)
            }
            Answer::AllowSubject => {
                if let Some(grant) = self.session_grant(required, "session", Some(exact)) {
                    self.change(&caller.profile, |authority| authority.grants.push(grant));
                }
                (allowed(Rule::Person), self.permit(caller, method))
            }
            Answer::AllowCapability => {
                if let Some(grant) = self.session_grant(required, "session", None) {
                    self.change(&caller.profile, |authority| authority.grants.push(grant));
                }
                (allowed(Rule::Person), self.permit(caller, method))
            }
        }
    }

    fn change(&self, profile: &Profile, change: impl FnOnce(&mut Authority)) {
        let mut authority = (*self.authority(profile)).clone();
        change(&mut authority);
        self.extensions_mut(|extensions| {
            extensions.insert(profile.extension.clone(), Arc::new(authority));
        });
    }

    /// A grant that a person's answer makes. `None` when the subject does not compile as a
    /// scope; the decision then holds for this call alone.
    fn session_grant(&self, required: &Required<'_>, origin: &str, scope: Option<ExactScope>) -> Option<CompiledGrant> {
        let id: Arc<str> = format!("prompt:{origin}:{}", required.capability).into();
        let scope = match scope {
            None => CompiledScope::default(),
            Some(ExactScope::Paths(paths)) => CompiledScope::exactly(paths),
            Some(ExactScope::Other(scope)) => CompiledScope::compile(Some(&scope), &self.inner.places, None).ok()?,
        };
        Some(CompiledGrant { id, capability: required.capability(), methods: None, scope })
    }

    fn exact_scope(&self, required: &Required<'_>) -> ExactScope {
        let mut scope = Scope::default();
        match &required.subject {
            Subject::Paths(first, second) => {
                let paths =
                    std::iter::once(first).chain(second).filter_map(|used| self.inner.places.absolute(*used).ok());
                return ExactScope::Paths(paths.collect());
            }
            Subject::Program { command, .. } => scope.commands = Some(vec![(*command).to_owned()]),
            Subject::Host { scheme, host, port } => {
                let usual = if *scheme == "https" { 443 } else { 80 };
                scope.hosts = Some(vec![if *port == usual { host.clone() } else { format!("{host}:{port}") }]);
            }
            Subject::Names(names) => scope.env = Some(names.iter().map(|name| (*name).to_owned()).collect()),
            Subject::None | Subject::Handle | Subject::Tool(_) => {}
        }
        ExactScope::Other(scope)
    }

    /// What a caller may touch, for a connector to ask about what it resolves.
    pub fn permit(&self, caller: &Caller, method: &str) -> Permit {
        Permit {
            gate: self.clone(),
            profile: Arc::clone(&caller.profile),
            authority: self.authority(&caller.profile),
            method: method.into(),
            once: None,
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

enum ExactScope {
    Paths(Vec<PathBuf>),
    Other(Scope),
}

/// Why a subject is allowed.
enum Allowed {
    Free,
    Handle,
    Grant(Arc<str>),
    Default(Arc<str>),
    Permissive,
}

/// Why it is not.
#[derive(Debug, Clone, Copy)]
struct Refusal {
    reason: Reason,
    rule: Rule,
}

/// One call being judged.
struct Case<'a> {
    inner: &'a Inner,
    profile: &'a Profile,
    authority: &'a Authority,
    method: &'a str,
}

impl Case<'_> {
    fn decide(&self, required: &Required<'_>) -> Result<Result<Allowed, Refusal>, HostcallError> {
        let capability = required.capability;
        if self.is_denied_outright(capability) {
            return Ok(Err(Refusal { reason: Reason::Policy, rule: Rule::DenyList }));
        }
        Ok(match &required.subject {
            Subject::Handle => Ok(Allowed::Handle),
            Subject::None => self.plain(capability),
            Subject::Tool(_) => self.by_grant(capability, |_| true),
            Subject::Paths(first, second) => {
                let mut verdict = self.path_use(*first)?;
                if let (Ok(_), Some(second)) = (&verdict, second) {
                    verdict = self.path_use(*second)?;
                }
                verdict
            }
            Subject::Program { command, args, cwd } => {
                let verdict = self.by_grant(capability, |scope| scope.command(command, args));
                match (verdict, cwd) {
                    (Ok(allowed), Some(cwd)) => {
                        let at = PathUse { access: Access::Read, path: cwd, form: crate::derive::PathForm::Node };
                        self.path_use(at)?.map(|_| allowed)
                    }
                    (verdict, _) => verdict,
                }
            }
            Subject::Host { scheme, host, port } => self.by_grant(capability, |scope| scope.host(scheme, host, *port)),
            Subject::Names(names) => {
                let asked: Vec<&&str> = names.iter().filter(|name| !PLAIN_ENV.contains(name)).collect();
                if asked.is_empty() {
                    Ok(Allowed::Free)
                } else {
                    self.by_grant(capability, |scope| asked.iter().all(|name| scope.env(name)))
                }
            }
        })
    }

    fn is_denied_outright(&self, capability: &str) -> bool {
        let named = |list: &[Capability]| list.iter().any(|denied| denied.as_str() == capability);
        named(&self.inner.policy.deny_caps) || named(&self.authority.never)
    }

    fn plain(&self, capability: &str) -> Result<Allowed, Refusal> {
        match capability {
            "log" | "ui" | "session" | "module" | "events" | "timer" | "tools" => Ok(Allowed::Free),
            _ => self.by_grant(capability, |_| true),
        }
    }

    fn path_use(&self, used: PathUse<'_>) -> Result<Result<Allowed, Refusal>, HostcallError> {
        let path = self.inner.places.absolute(used)?;
        Ok(self.path(used.access, &path))
    }

    fn path(&self, access: Access, path: &Path) -> Result<Allowed, Refusal> {
        if self.is_denied_outright(access.capability()) {
            return Err(Refusal { reason: Reason::Policy, rule: Rule::DenyList });
        }
        let package_root = self.profile.package_root.as_deref();
        let protection = self.inner.places.protection(path, package_root);
        match (protection, access) {
            (Protection::All, _) | (Protection::Write, Access::Write) => {
                Err(Refusal { reason: Reason::ProtectedPath, rule: Rule::Protected })
            }
            (_, Access::Read) if self.inner.places.reads_freely(path, package_root) => Ok(Allowed::Free),
            (Protection::RunsLater, Access::Write) => self
                .by_grant(access.capability(), |scope| scope.names_path(path))
                .map_err(|_| Refusal { reason: Reason::Scope, rule: Rule::RunsLater }),
            _ => self.by_grant(access.capability(), |scope| scope.path(path)),
        }
    }

    fn by_grant(&self, capability: &str, covers: impl Fn(&CompiledScope) -> bool) -> Result<Allowed, Refusal> {
        let mut held = false;
        let mut find = |grants: &[CompiledGrant]| {
            grants
                .iter()
                .filter(|grant| grant.capability.as_str() == capability)
                .inspect(|_| held = true)
                .filter(|grant| grant.methods.as_ref().is_none_or(|methods| methods.iter().any(|m| m == self.method)))
                .find(|grant| covers(&grant.scope))
                .map(|grant| Arc::clone(&grant.id))
        };
        if let Some(grant) = find(&self.authority.grants) {
            return Ok(Allowed::Grant(grant));
        }
        if let Some(grant) = find(&self.authority.defaults) {
            return Ok(Allowed::Default(grant));
        }
        if self.inner.policy.mode == Mode::Permissive {
            return Ok(Allowed::Permissive);
        }
        Err(if held {
            Refusal { reason: Reason::Scope, rule: Rule::OutOfScope }
        } else {
            Refusal { reason: Reason::NoGrant, rule: Rule::NoGrant }
        })
    }

    fn allowed(&self, required: &Required<'_>, allowed: Allowed) -> Decision {
        let (rule, grant) = match allowed {
            Allowed::Free => (Rule::Free, None),
            Allowed::Handle => (Rule::Handle, None),
            Allowed::Grant(grant) => (Rule::Grant, Some(grant)),
            Allowed::Default(grant) => (Rule::Default, Some(grant)),
            Allowed::Permissive => (Rule::Permissive, None),
        };
        Decision { allowed: true, capability: required.capability, rule, grant, reason: None, loss: self.loss() }
    }

    fn denied(&self, required: &Required<'_>, refusal: Refusal) -> Decision {
        Decision {
            allowed: false,
            capability: required.capability,
            rule: refusal.rule,
            grant: None,
            reason: Some(refusal.reason),
            loss: self.loss(),
        }
    }

    fn loss(&self) -> ExpectedLoss {
        self.authority.evidence.expected_loss()
    }

    fn question(&self, required: &Required<'_>, decision: &Decision) -> Question {
        let capability = required.capability;
        let words = CAPABILITIES.iter().find(|(name, _)| *name == capability).map_or(capability, |(_, words)| words);
        let mut warnings = Vec::new();
        let holds = |other: &str| self.authority.grants.iter().any(|grant| grant.capability.as_str() == other);
        match capability {
            "http" if holds("read") => warnings.push("with what it may read, it can send files out".to_owned()),
            "exec" if holds("write") => warnings.push("with what it may write, it can run anything".to_owned()),
            "write" => warnings.push("who can write the project can often make programs run".to_owned()),
            _ => {}
        }
        if decision.rule == Rule::RunsLater {
            warnings.push("this file makes programs run later".to_owned());
        }
        if let Subject::Program { command, .. } = &required.subject
            && INTERPRETERS.contains(&program_name(command))
        {
            warnings.push(format!("{} runs whatever its arguments say", program_name(command)));
        }
        Question {
            extension: self.profile.extension.clone(),
            capability: required.capability(),
            what: words.to_owned(),
            subject: shown(&required.subject.to_string(), SHOWN_SUBJECT),
            warnings,
            loss: decision.loss,
        }
    }
}

/// The last name of a command, as programs are known by.
fn program_name(command: &str) -> &str {
    command.rsplit('/').next().unwrap_or(command)
}

/// What a caller may touch.
///
/// A connector asks it about everything that resolution brings up and that the call itself did
/// not name: where a link led, where a redirect points, which file a program's name stands for.
#[derive(Clone)]
pub struct Permit {
    gate: Gate,
    profile: Arc<Profile>,
    authority: Arc<Authority>,
    method: Arc<str>,
    /// What a person allowed for this call alone.
    once: Option<Arc<CompiledGrant>>,
}

impl Permit {
    fn case(&self) -> Case<'_> {
        Case { inner: &self.gate.inner, profile: &self.profile, authority: &self.authority, method: &self.method }
    }

    fn check(&self, verdict: Result<Allowed, Refusal>, once: impl Fn(&CompiledScope) -> bool) -> Result<(), Reason> {
        match verdict {
            Ok(_) => Ok(()),
            Err(refusal)
                if refusal.reason.can_be_asked() && self.once.as_ref().is_some_and(|grant| once(&grant.scope)) =>
            {
                Ok(())
            }
            Err(refusal) => Err(refusal.reason),
        }
    }

    /// Whether `access` is allowed at an absolute path that was reached without following links.
    pub fn path(&self, access: Access, path: &Path) -> Result<(), Reason> {
        self.check(self.case().path(access, path), |scope| scope.path(path))
    }

    /// Whether a server may be talked to.
    pub fn host(&self, scheme: &str, host: &str, port: u16) -> Result<(), Reason> {
        let covers = |scope: &CompiledScope| scope.host(scheme, host, port);
        self.check(self.case().by_grant("http", covers), covers)
    }

    /// Whether the user named this very address and port, as an address that is not public needs.
    pub fn names_address(&self, address: IpAddr, port: u16) -> bool {
        let named =
            |grant: &CompiledGrant| grant.capability.as_str() == "http" && grant.scope.names_address(address, port);
        self.authority.grants.iter().any(named) || self.once.as_deref().is_some_and(named)
    }

    /// Whether the program's whole path is named, as one inside a folder that extensions can
    /// write must be. Permissive mode takes every program as named.
    pub fn names_program(&self, program: &Path) -> bool {
        let project = &self.places().project;
        let named =
            |grant: &CompiledGrant| grant.capability.as_str() == "exec" && grant.scope.names_program(program, project);
        self.gate.inner.policy.mode == Mode::Permissive
            || self.authority.grants.iter().any(named)
            || self.once.as_deref().is_some_and(named)
    }

    /// Whether an environment variable may be read.
    pub fn env(&self, name: &str) -> Result<(), Reason> {
        if PLAIN_ENV.contains(&name) {
            return Ok(());
        }
        let covers = |scope: &CompiledScope| scope.env(name);
        self.check(self.case().by_grant("env", covers), covers)
    }

    /// Whether file systems that are mounted inside the session's folders belong to them.
    pub fn crosses_mounts(&self) -> bool {
        self.gate.inner.policy.mode == Mode::Permissive
    }

    /// The session's folders.
    pub fn places(&self) -> &Places {
        self.gate.places()
    }

    /// Whose permit it is.
    pub fn extension(&self) -> &ExtensionId {
        &self.profile.extension
    }

    /// Folder of the caller's package.
    pub fn package_root(&self) -> Option<&Path> {
        self.profile.package_root.as_deref()
    }
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Permit").field("extension", &self.profile.extension).finish_non_exhaustive()
    }
}
