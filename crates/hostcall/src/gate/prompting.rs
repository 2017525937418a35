//! Prompts the user, and applies the answer.
//!
//! One prompt is open at a time. Waiting calls are judged again before their prompt, so that an answer settles every call that it
//! covers; a denial also settles waiting prompts with the same subject. After a number of denials in a row an extension no longer
//! causes prompts, and calls beyond the limit of waiting prompts are denied, so that an extension cannot obtain consent by
//! exhaustion.

use super::{Authority, Gate, GateGrant, Judgement, Never, Permit};
use crate::caller::{Caller, During, Profile};
use crate::decision::{Decision, Reason, Rule};
use crate::policy::{Grant, Mode};
use crate::prompt::{Answer, AnswerExtent, Question, Remembered, shown};
use crate::scope::{CompiledScope, RAW};
use crate::subject::{Access, Input, PathForm, PathUse, Required, Subject};
use crate::variables::{Variable, VariableEffect};
use crate::vocabulary::CAPABILITIES;
use pijs_programs::{self as programs, Kind};
use pijs_protocol::characters::fits;
use pijs_protocol::manifest::{CapabilityRequest, Scope};
use pijs_protocol::{ExtensionId, HostcallError, guard};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum length of a subject in a prompt, in characters.
const MAX_SUBJECT_CHARS: usize = 4000;
/// Maximum number of prompts of one extension that wait at the same time.
pub const MAX_WAITING: u32 = 16;
/// Number of denials in a row after which an extension causes no more prompts in the session.
pub const MUTED_AFTER: u32 = 10;

/// Maximum number of requests that a user may grant at once: the whole list has to be visible.
const MAX_REQUESTED: usize = 12;
const MAX_REQUESTED_CHARS: usize = 240;

/// Returns whether a list of requests is short enough to be read.
fn is_readable(requested: &[CapabilityRequest]) -> bool {
    let is_short =
        |request: &CapabilityRequest| crate::requests::describe(request).chars().count() <= MAX_REQUESTED_CHARS;
    requested.len() <= MAX_REQUESTED && requested.iter().all(is_short)
}

/// Waiting prompts and denials of all extensions.
#[derive(Default)]
pub(super) struct PromptQueue {
    turn: tokio::sync::Mutex<()>,
    state: Mutex<BTreeMap<ExtensionId, ExtensionPrompts>>,
}

/// Waiting prompts and denials of one extension.
#[derive(Default)]
struct ExtensionPrompts {
    waiting: u32,
    refused_in_a_row: u32,
    muted: bool,
    /// Capabilities and subjects that were denied while other prompts waited.
    refused: Vec<(String, String)>,
    /// Answer about one compiled text; it applies to all texts of the extension until the extension is loaded again.
    of_text: Option<Answer>,
    /// Answers for one call, by topic, while the extension is being loaded.
    of_load: Option<Vec<(Topic, Answer)>>,
}

/// Topic of a prompt, independent of the operation.
#[derive(Debug, PartialEq, Eq)]
enum Topic {
    Paths(Vec<(&'static str, PathBuf)>),
    /// Compilation of text. One topic for all texts: a library compiles many, and each would prompt.
    Text,
    /// Capability and subject.
    Other(&'static str, String),
}

impl PromptQueue {
    fn with<R>(&self, extension: &ExtensionId, change: impl FnOnce(&mut ExtensionPrompts) -> R) -> R {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(state.entry(extension.clone()).or_default())
    }

    /// Begins the load of an extension: until [`PromptQueue::end_loads`] the same topic causes one prompt.
    pub(super) fn begin_load(&self, extension: &ExtensionId) {
        self.with(extension, |asked| {
            asked.of_load = Some(Vec::new());
            asked.of_text = None;
        });
    }

    pub(super) fn end_loads(&self, is_over: impl Fn(&ExtensionId) -> bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.iter_mut().filter(|(extension, _)| is_over(extension)).for_each(|(_, asked)| asked.of_load = None);
    }

    pub(super) fn refused_in_a_row(&self, extension: &ExtensionId) -> u32 {
        self.with(extension, |asked| asked.refused_in_a_row)
    }
}

/// Entry in the queue of prompts.
struct QueueEntry<'a> {
    prompts: &'a PromptQueue,
    extension: &'a ExtensionId,
}

impl<'a> QueueEntry<'a> {
    /// Enters the queue; returns `None` if the queue is full, or the extension causes no more prompts.
    fn enter(prompts: &'a PromptQueue, extension: &'a ExtensionId) -> Option<Self> {
        let free = prompts.with(extension, |asked| {
            let full = asked.muted || asked.waiting >= MAX_WAITING;
            if full && guard!(GateQuestions) {
                return false;
            }
            asked.waiting += 1;
            true
        });
        // Created only for a free entry, because dropping it frees one.
        free.then(|| Self { prompts, extension })
    }

    /// Returns the reason of a denial without a prompt: the user muted the extension, or denied an equal call meanwhile.
    fn denied_meanwhile(&self, question: &Question) -> Option<Reason> {
        self.prompts.with(self.extension, |asked| match asked.muted {
            true => Some(Reason::User),
            false => asked.refused.contains(&about(question)).then_some(Reason::EarlierAnswer(AnswerExtent::Call)),
        })
    }

    fn extent(&self, topic: Option<&Topic>) -> AnswerExtent {
        match topic {
            Some(Topic::Text) => AnswerExtent::Reload,
            Some(_) if self.prompts.with(self.extension, |asked| asked.of_load.is_some()) => AnswerExtent::Load,
            _ => AnswerExtent::Call,
        }
    }

    /// Returns the earlier answer about the same topic, given during the load of the extension or for another text.
    fn stored_answer(&self, topic: &Topic) -> Option<Answer> {
        self.prompts.with(self.extension, |asked| {
            if *topic == Topic::Text {
                return asked.of_text;
            }
            let answers = asked.of_load.as_ref()?;
            answers.iter().find(|(known, _)| known == topic).map(|(_, answer)| *answer)
        })
    }

    /// Stores an answer for one call until the extension is loaded, or an answer for a text.
    fn store_answer(&self, topic: Topic, answer: Answer) {
        if matches!(answer, Answer::Deny | Answer::AllowOnce) {
            self.prompts.with(self.extension, |asked| {
                if topic == Topic::Text {
                    asked.of_text = Some(answer);
                } else if let Some(answers) = &mut asked.of_load {
                    answers.push((topic, answer));
                }
            });
        }
    }

    fn note(&self, question: Question, answer: Answer) {
        self.prompts.with(self.extension, |asked| match answer {
            Answer::Deny | Answer::DenyAlways | Answer::Mute => {
                asked.refused_in_a_row += 1;
                asked.muted |= answer == Answer::Mute || asked.refused_in_a_row >= MUTED_AFTER;
                if asked.waiting > 1 {
                    asked.refused.push(about(&question));
                }
            }
            Answer::NoPerson => {}
            _ => asked.refused_in_a_row = 0,
        });
    }
}

/// Returns capability and subject of a prompt.
fn about(question: &Question) -> (String, String) {
    (question.capability.to_string(), question.subject.clone())
}

impl Drop for QueueEntry<'_> {
    fn drop(&mut self) {
        self.prompts.with(self.extension, |asked| {
            asked.waiting -= 1;
            if asked.waiting == 0 {
                asked.refused.clear();
            }
        });
    }
}

impl Gate {
    /// Prompts the user, one prompt at a time, and decides again with the answer.
    pub async fn ask(
        &self,
        caller: &Caller,
        method: &str,
        required: &Required<'_>,
    ) -> Result<(Decision, Permit), HostcallError> {
        let prompts = &self.inner.prompts;
        let Some(place) = QueueEntry::enter(prompts, caller.extension()) else {
            return self.over_limit(caller, method, required);
        };
        let _one_at_a_time = prompts.turn.lock().await;
        // An earlier answer may have settled the call.
        match self.judge(caller, method, required)? {
            Judgement::Settled(decision) => Ok((decision, self.permit(caller, method))),
            Judgement::Ask(mut question, decision) => {
                let Some(prompter) = self.inner.services.prompter.clone() else {
                    return Ok((decision, self.permit(caller, method)));
                };
                let requested = question.requested.clone();
                let topic = self.topic(caller, required, &decision);
                let is_whole = question.is_whole;
                question.holds = place.extent(topic.as_ref());
                let earlier = topic.as_ref().and_then(|topic| place.stored_answer(topic));
                let mut reason = place.denied_meanwhile(&question);
                let answer = if reason.is_some() {
                    Answer::Deny
                } else if let Some(earlier) = earlier {
                    reason = Some(Reason::EarlierAnswer(question.holds));
                    earlier
                } else {
                    let answer = prompter.ask((*question).clone()).await;
                    place.note(*question, answer);
                    if let Some(topic) = topic {
                        place.store_answer(topic, answer);
                    }
                    answer
                };
                let answer = match answer {
                    Answer::AllowSubject | Answer::AllowAlways if !is_whole => Answer::AllowOnce,
                    answer => answer,
                };
                let (decision, permit) = self.settle(caller, method, required, (decision, requested), answer);
                match reason.filter(|_| !decision.allowed) {
                    Some(reason) => Ok((decision.because(reason, Rule::Person), permit)),
                    None => Ok((decision, permit)),
                }
            }
        }
    }

    /// Returns the topic of a prompt. Returns `None` if each call needs its own prompt: a call of the model, a call after secrets
    /// were read, and a program whose code arrives later.
    fn topic(&self, caller: &Caller, required: &Required<'_>, decision: &Decision) -> Option<Topic> {
        if caller.during == During::Model || decision.rule == Rule::AfterSecret {
            return None;
        }
        match &required.subject {
            Subject::Program { given, .. } if given.input == Input::Later => None,
            Subject::Code { path: "", .. } => Some(Topic::Text),
            Subject::Paths(first, second) => {
                let uses = std::iter::once(first).chain(second);
                let place = |used: &PathUse<'_>| {
                    let kind = if used.access == Access::Speak { "speak" } else { used.access.capability() };
                    Some((kind, self.inner.places.absolute(*used).ok()?))
                };
                uses.map(place).collect::<Option<_>>().map(Topic::Paths)
            }
            subject => Some(Topic::Other(required.capability, format!("{subject:?}"))),
        }
    }

    /// Begins the load of an extension: the same topic causes one prompt until [`Gate::end_load`] or [`Gate::end_loads`].
    pub fn begin_load(&self, extension: &ExtensionId) {
        self.inner.prompts.begin_load(extension);
    }

    /// Ends the load of one extension.
    pub fn end_load(&self, extension: &ExtensionId) {
        self.inner.prompts.end_loads(|loaded| loaded == extension);
    }

    /// Ends the load of all extensions: the session has started.
    pub fn end_loads(&self) {
        self.inner.prompts.end_loads(|_| true);
    }

    /// Prompts for a synchronous call, and blocks through the host's closure.
    pub fn ask_blocking(
        &self,
        caller: &Caller,
        method: &str,
        required: &Required<'_>,
    ) -> Result<(Decision, Permit), HostcallError> {
        let mut found = None;
        if let Some(block_on) = &self.inner.services.block_on {
            block_on(Box::pin(async { found = Some(self.ask(caller, method, required).await) }));
        }
        found.unwrap_or_else(|| {
            let decision = match self.judge(caller, method, required)? {
                Judgement::Settled(decision) => decision,
                Judgement::Ask(_, decision) => decision.because(Reason::NonInteractive, Rule::NoPerson),
            };
            Ok((decision, self.permit(caller, method)))
        })
    }

    /// Prompts the user about something other than a call. Returns true in permissive mode, and false without a user to prompt
    /// and under the strict policy.
    pub async fn consult(&self, caller: &Caller, capability: &'static str, what: String, subject: &str) -> bool {
        self.yes_or_no(caller, AnswerExtent::Act, (capability, what, subject)).await
    }

    /// Prompts the user about a program or a definition that has changed, as [`Gate::consult`] does. The caller remembers the
    /// present state if the user agrees.
    pub async fn consult_change(&self, caller: &Caller, capability: &'static str, what: String, subject: &str) -> bool {
        self.yes_or_no(caller, AnswerExtent::Change, (capability, what, subject)).await
    }

    async fn yes_or_no(
        &self,
        caller: &Caller,
        holds: AnswerExtent,
        (capability, what, subject): (&'static str, String, &str),
    ) -> bool {
        match self.inner.policy.mode {
            Mode::Permissive => return true,
            Mode::Strict => return false,
            Mode::Prompt => {}
        }
        let prompts = &self.inner.prompts;
        let (Some(prompter), Some(place)) =
            (self.inner.services.prompter.clone(), QueueEntry::enter(prompts, caller.extension()))
        else {
            return false;
        };
        let _one_at_a_time = prompts.turn.lock().await;
        let question = Question {
            capability: capability.into(),
            what,
            subject: shown(subject, MAX_SUBJECT_CHARS),
            refused: prompts.refused_in_a_row(caller.extension()),
            holds,
            ..Question::about(caller.extension().clone(), self.evidence(&caller.profile).expected_loss())
        };
        let answer = prompter.ask(question.clone()).await;
        place.note(question, answer);
        matches!(answer, Answer::AllowOnce | Answer::AllowSubject | Answer::AllowCapability | Answer::AllowAlways)
    }

    fn over_limit(
        &self,
        caller: &Caller,
        method: &str,
        required: &Required<'_>,
    ) -> Result<(Decision, Permit), HostcallError> {
        let (Judgement::Settled(decision) | Judgement::Ask(_, decision)) = self.judge(caller, method, required)?;
        let decision = if decision.allowed { decision } else { decision.because(Reason::Quota, Rule::Muted) };
        Ok((decision, self.permit(caller, method)))
    }

    fn settle(
        &self,
        caller: &Caller,
        method: &str,
        required: &Required<'_>,
        (denied, requested): (Decision, Vec<CapabilityRequest>),
        answer: Answer,
    ) -> (Decision, Permit) {
        let allowed = Decision { allowed: true, rule: Rule::Person, reason: None, ..denied.clone() };
        // Consent to send data after secrets were read grants only that.
        let after_secret = denied.rule == Rule::AfterSecret;
        let capability = if after_secret { "egress" } else { required.capability };
        let exact =
            || if after_secret { vec![(capability, ExactScope::Anything)] } else { self.exact_scopes(required) };
        let for_model = caller.during == During::Model;
        match answer {
            Answer::NoPerson => (denied.because(Reason::NonInteractive, Rule::NoPerson), self.permit(caller, method)),
            Answer::DenyAlways if !for_model => {
                let refused = if after_secret { exact() } else { self.missing_scopes(&caller.profile, required) };
                for (of, exact) in refused {
                    self.deny_permanently(caller, of, exact);
                }
                (denied.because(Reason::User, Rule::Person), self.permit(caller, method))
            }
            Answer::Deny | Answer::Mute | Answer::DenyAlways => {
                (denied.because(Reason::User, Rule::Person), self.permit(caller, method))
            }
            Answer::AllowOnce => {
                let mut permit = self.permit(caller, method);
                permit.once = self.one_time_grants(exact(), required);
                (allowed, permit)
            }
            Answer::AllowSubject | Answer::AllowAlways => {
                for (of, exact) in exact() {
                    if answer == Answer::AllowAlways
                        && !for_model
                        && let Some(scope) = exact.to_scope(&self.inner.places.project)
                        && self.is_storable(scope.as_ref())
                    {
                        self.remember(
                            caller,
                            Remembered { capability: of.into(), methods: None, scope, allowed: true },
                        );
                    }
                    if let Some(grant) = self.grant_of_answer(of, "session", exact) {
                        self.add(caller, grant);
                    }
                }
                (allowed, self.permit(caller, method))
            }
            Answer::AllowPackage | Answer::AllowPackageAlways => {
                let is_offered = !requested.is_empty() && !for_model && !after_secret;
                let is_same = self.take_requested(caller) == requested;
                if !is_offered || !is_same {
                    // The answer was not offered, or the extension was reloaded and has other requests now.
                    return (denied.because(Reason::User, Rule::Person), self.permit(caller, method));
                }
                for request in requested {
                    self.grant_requested(caller, request, answer == Answer::AllowPackageAlways);
                }
                // The subject of the call is granted too, because the scan may have missed it.
                for (of, exact) in exact() {
                    if let Some(grant) = self.grant_of_answer(of, "session", exact) {
                        self.add(caller, grant);
                    }
                }
                (allowed, self.permit(caller, method))
            }
            Answer::AllowCapability => {
                // The subject is granted too, because a whole capability does not cover subjects that have to be named.
                let all = (capability, ExactScope::Anything);
                for (of, scope) in exact().into_iter().chain([all]) {
                    if let Some(grant) = self.grant_of_answer(of, "session", scope) {
                        self.add(caller, grant);
                    }
                }
                (allowed, self.permit(caller, method))
            }
        }
    }

    /// Returns grants for this call only.
    fn one_time_grants(&self, exact: Vec<(&'static str, ExactScope)>, required: &Required<'_>) -> Vec<GateGrant> {
        // The prompt included the program's working folder.
        let folder = match &required.subject {
            Subject::Program { cwd: Some(cwd), .. } => self.inner.places.node_path(cwd).ok(),
            _ => None,
        };
        let folder = folder.map(|folder| ("read", ExactScope::Paths(vec![folder])));
        let exact = exact.into_iter().chain(folder);
        exact.filter_map(|(of, scope)| self.grant_of_answer(of, "once", scope)).collect()
    }

    /// Denies exactly the subject permanently, beyond the session if a grant can express it.
    fn deny_permanently(&self, caller: &Caller, capability: &'static str, exact: ExactScope) {
        let scope = exact.to_scope(&self.inner.places.project).filter(|scope| self.is_storable(scope.as_ref()));
        let text = match &scope {
            Some(_) => self.as_grants(capability, &exact).into_iter().next(),
            None => None,
        };
        if let Some(scope) = scope {
            self.remember(caller, Remembered { capability: capability.into(), methods: None, scope, allowed: false });
        }
        let is_whole = matches!(exact, ExactScope::Anything);
        let Some(compiled) = self.grant_of_answer(capability, "never", exact) else { return };
        let scope = (!is_whole).then_some(compiled.scope);
        let never = Never { capability: capability.into(), scope, text };
        self.change(&caller.profile, |authority| authority.never.push(never));
    }

    fn take_requested(&self, caller: &Caller) -> Vec<CapabilityRequest> {
        let requested = self.authority(&caller.profile).requested.clone();
        self.change(&caller.profile, |authority| authority.requested.clear());
        requested
    }

    /// Grants one request of an extension.
    fn grant_requested(&self, caller: &Caller, request: CapabilityRequest, always: bool) {
        let CapabilityRequest { capability, methods, scope } = request;
        let id = format!("prompt:package:{capability}");
        let grant = Grant {
            id,
            capability: capability.clone(),
            methods: methods.clone(),
            scope: scope.clone(),
            unasked: false,
        };
        // A request with an invalid scope grants nothing.
        let Ok(compiled) = self.compile(&grant, caller.profile.package_root.as_deref()) else { return };
        self.add(caller, compiled);
        if always {
            self.remember(caller, Remembered { capability, methods, scope, allowed: true });
        }
    }

    /// Adds a user's grant for the session.
    fn add(&self, caller: &Caller, grant: GateGrant) {
        self.change(&caller.profile, |authority| match caller.during {
            During::Model => authority.for_model.push(grant),
            During::Turn | During::Verdict => authority.grants.push(grant),
        });
    }

    pub(super) fn change(&self, profile: &Profile, change: impl FnOnce(&mut Authority)) {
        let mut authority = (*self.authority(profile)).clone();
        change(&mut authority);
        self.extensions_mut(|extensions| {
            extensions.insert(profile.extension.clone(), Arc::new(authority));
        });
    }

    /// Returns whether consent can outlive the session, that is, whether a grant can express the whole subject.
    fn can_outlive_session(&self, caller: &Caller, required: &Required<'_>, decision: &Decision) -> bool {
        if caller.during == During::Model {
            return false;
        }
        let scopes = self.exact_scopes(required);
        let is_said = |scope: &ExactScope| {
            let said = scope.to_scope(&self.inner.places.project);
            said.is_some_and(|scope| self.is_storable(scope.as_ref()))
        };
        decision.rule == Rule::AfterSecret || scopes.iter().all(|(_, scope)| is_said(scope))
    }

    /// Returns whether a later session can parse a scope: a path may be longer than a pattern, or have more special characters.
    pub(super) fn is_storable(&self, scope: Option<&Scope>) -> bool {
        CompiledScope::compile(scope, &self.inner.places, None).is_ok() || !guard!(GateStorableAnswer)
    }

    fn remember(&self, caller: &Caller, remembered: Remembered) {
        if let Some(memory) = &self.inner.services.memory {
            memory.remember(caller.extension(), remembered);
        }
    }

    /// Returns the grant of a user's answer. Returns `None` if the subject does not compile as a scope; the decision then applies
    /// to this call only.
    fn grant_of_answer(&self, capability: &str, origin: &str, scope: ExactScope) -> Option<GateGrant> {
        let id: Arc<str> = format!("prompt:{origin}:{capability}").into();
        let scope = match scope {
            ExactScope::Anything => CompiledScope::default(),
            ExactScope::Paths(paths) => CompiledScope::exactly(paths),
            ExactScope::Program { scope, .. } => *scope,
            ExactScope::Tool(name) => CompiledScope::exactly_tool(&name),
            ExactScope::Other(scope) => CompiledScope::compile(Some(&scope), &self.inner.places, None).ok()?,
        };
        Some(GateGrant { id, capability: capability.into(), methods: None, scope, unasked: false })
    }

    /// Returns the exact subjects of a call, by capability. Consent to copy a file does not include consent to change it.
    pub(super) fn exact_scopes(&self, required: &Required<'_>) -> Vec<(&'static str, ExactScope)> {
        let mut scope = Scope::default();
        let exact = match &required.subject {
            Subject::Paths(first, second) => {
                let mut paths: Vec<(&'static str, Vec<PathBuf>)> = Vec::new();
                for used in std::iter::once(first).chain(second) {
                    let apart = guard!(GateBothEnds);
                    let of = if apart { used.access.capability() } else { required.capability };
                    let Ok(path) = self.inner.places.absolute(*used) else { continue };
                    match paths.iter_mut().find(|(known, _)| *known == of) {
                        Some((_, known)) => known.push(path),
                        None => paths.push((of, vec![path])),
                    }
                }
                return paths.into_iter().map(|(of, paths)| (of, ExactScope::Paths(paths))).collect();
            }
            Subject::Program { command, args, cwd, given } => {
                let folder =
                    cwd.map_or_else(|| Ok(self.inner.places.project.clone()), |cwd| self.inner.places.node_path(cwd));
                let folder = folder.ok();
                let scope = CompiledScope::exactly_program(command, args, folder.as_deref(), given);
                let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
                let variables: Vec<(String, String)> =
                    given.asked().map(|variable| (variable.name.to_owned(), variable.kept_value())).collect();
                let line = (given.input == Input::Data)
                    .then(|| crate::scope::exact_command(&variables, command, &args))
                    .flatten();
                ExactScope::Program { scope: Box::new(scope), line, folder }
            }
            Subject::Host { scheme, host, port } => {
                let usual = if *scheme == "https" { 443 } else { 80 };
                let short = *port == usual && !crate::scope::is_near(host);
                scope.hosts = Some(vec![match *scheme {
                    "tcp" => format!("{RAW}{host}:{port}"),
                    _ if short => host.clone(),
                    _ => format!("{host}:{port}"),
                }]);
                ExactScope::Other(scope)
            }
            Subject::Names(names) => {
                scope.env = Some(names.iter().map(|name| (*name).to_owned()).collect());
                ExactScope::Other(scope)
            }
            Subject::Tool(name) => ExactScope::Tool((*name).to_owned()),
            Subject::Mcp { target, .. } => {
                scope.tools = Some(vec![(*target).to_owned()]);
                ExactScope::Other(scope)
            }
            Subject::None | Subject::Handle | Subject::Code { .. } => ExactScope::Anything,
        };
        vec![(required.capability, exact)]
    }

    /// Builds the prompt about a call without a grant.
    pub(super) fn question(
        &self,
        caller: &Caller,
        authority: &Authority,
        required: &Required<'_>,
        decision: &Decision,
    ) -> Question {
        let capability = required.capability;
        let words = CAPABILITIES.iter().find(|(name, _)| *name == capability).map_or(capability, |(_, words)| words);
        let mut warnings = Vec::new();
        if caller.during == During::Model {
            warnings.push("the model makes this call, after a message of the extension".to_owned());
        }
        let holds = |other: &str| authority.grants.iter().any(|grant| grant.capability.as_str() == other);
        match capability {
            "http" if holds("read") => warnings.push("together with its read access, it can send files out".to_owned()),
            "exec" if holds("write") => warnings.push("together with its write access, it can run anything".to_owned()),
            "write" => warnings.push("files in the project can make programs run".to_owned()),
            "eval" => warnings.push("the code is not part of the package; it can do what the extension can".to_owned()),
            _ => {}
        }
        if let (true, Some(path)) = (matches!(capability, "http" | "exec"), self.secret_read(caller.extension())) {
            warnings.push(format!("it has read '{}', which may hold secrets", shown(&path, 200)));
        }
        let is_near_inside =
            matches!(&required.subject, Subject::Host { host, .. } if crate::scope::is_near_inside(host));
        if decision.reason == Some(Reason::BlockedAddress) || is_near_inside {
            warnings.push("the server is on this machine or its network".to_owned());
        }
        if decision.rule == Rule::RunsLater {
            warnings.push("programs run this file, or models read it".to_owned());
        }
        self.add_program_warnings(&required.subject, &mut warnings);
        if let (Subject::Mcp { target, .. }, Some(describe)) = (&required.subject, &self.inner.services.mcp_tools) {
            warnings.extend(describe(target).iter().map(|line| shown(line, MAX_REQUESTED_CHARS)));
        }
        let subject = self.subject_text(required);
        let is_shown = match &required.subject {
            // The variables of a server are those of its configuration, which the answer is bound to.
            Subject::Program { given, .. } if !caller.extension().is_server() => {
                given.asked().all(Variable::is_shown_whole)
            }
            _ => true,
        };
        let is_whole = (fits(&subject, MAX_SUBJECT_CHARS) && is_shown) || !guard!(PromptWhole);
        if !is_whole {
            let digest = crate::variables::digest_of(subject.as_bytes());
            warnings.insert(0, format!("a part is not shown, and may do anything ({digest})"));
        }
        let can_agree =
            caller.during != During::Model && decision.rule != Rule::AfterSecret && is_readable(&authority.requested);
        let requested = if can_agree { authority.requested.clone() } else { Vec::new() };
        Question {
            extension: caller.extension().clone(),
            capability: required.capability(),
            what: words.to_owned(),
            subject: shown(&subject, MAX_SUBJECT_CHARS),
            warnings,
            package: requested
                .iter()
                .map(|request| shown(&crate::requests::describe(request), MAX_REQUESTED_CHARS))
                .collect(),
            requested,
            loss: decision.loss,
            is_whole,
            can_be_kept: is_whole && self.can_outlive_session(caller, required, decision),
            refused: self.inner.prompts.refused_in_a_row(caller.extension()),
            holds: AnswerExtent::Call,
        }
    }
}

impl Gate {
    /// Adds warnings about a program, if the subject is one.
    fn add_program_warnings(&self, subject: &Subject<'_>, warnings: &mut Vec<String>) {
        if let Subject::Program { command, cwd, .. } = subject
            && let Some(file) = self.inner.services.programs.as_ref().and_then(|locate| locate(command, *cwd))
        {
            warnings.insert(0, format!("the program is {}", shown(&file.to_string_lossy(), MAX_SUBJECT_CHARS)));
        }
        if let Subject::Program { cwd: Some(cwd), .. } = subject
            && let Ok(folder) = self.inner.places.node_path(cwd)
            && folder != self.inner.places.project
            && guard!(PromptWhole)
        {
            warnings.push(format!("it runs in '{}'", shown(&folder.to_string_lossy(), MAX_SUBJECT_CHARS)));
        }
        if let Subject::Program { command, args, given, .. } = subject {
            let name = shown(programs::name_of(command), 60);
            match programs::kind_of(command) {
                Kind::Interpreter => warnings.push(format!("{name} runs code in its arguments")),
                Kind::Options if !programs::is_plain(command, args, 0) => {
                    warnings.push(format!("{name} can run other programs, and with these arguments it may"));
                }
                _ => {}
            }
            if given.asked().any(|variable| variable.effect == VariableEffect::Steering) {
                warnings.push("its variables select code that is run, or servers that are contacted".to_owned());
            }
            match &given.input {
                Input::Data => {}
                Input::Program { start, bytes, digest } => {
                    let start = shown(start, MAX_SUBJECT_CHARS);
                    warnings.push(format!("{name} runs its input: {start} ({bytes} bytes, {digest})"));
                }
                Input::Later => warnings.push(format!("{name} runs input that the extension sends later")),
            }
        }
    }

    /// Formats the subject for the user. A path with `..` is normalized, because its prefix is misleading.
    fn subject_text(&self, required: &Required<'_>) -> String {
        let (first, second) = match &required.subject {
            Subject::Paths(first, second) => (first, second),
            Subject::Handle if required.capability == "http" => return "over an open connection".to_owned(),
            Subject::Handle => return "an open file".to_owned(),
            subject => return subject.to_string(),
        };
        let climbs = |used: &PathUse<'_>| {
            matches!(used.form, PathForm::TargetOf(_)) || used.path.split('/').any(|name| name == "..")
        };
        let place = |used: &PathUse<'_>| {
            let is_up = guard!(PromptWhole);
            let meant = self.inner.places.absolute(*used).ok().filter(|_| is_up && climbs(used));
            let text = meant.map_or_else(|| used.path.into(), |place| place.to_string_lossy().into_owned());
            // Quoted with escapes, because a name with a quotation mark could look like two names.
            if is_up && text.contains('\'') { format!("{text:?}") } else { format!("'{text}'") }
        };
        match second {
            Some(second) if second.path != first.path => format!("{} -> {}", place(first), place(second)),
            _ => place(first),
        }
    }
}

/// Exact subject of one call.
pub(super) enum ExactScope {
    Anything,
    Paths(Vec<PathBuf>),
    /// Program, arguments, environment and input; the pattern for them, if there is one; and the working folder.
    Program {
        scope: Box<CompiledScope>,
        line: Option<String>,
        folder: Option<PathBuf>,
    },
    Tool(String),
    Other(Scope),
}

impl ExactScope {
    /// Converts to a scope for the grant store; `None` if no pattern expresses it: an argument with a blank, a working folder
    /// outside the project, code as input, a tool of unknown effect.
    pub(super) fn to_scope(&self, project: &Path) -> Option<Option<Scope>> {
        Some(match self {
            Self::Anything => None,
            Self::Paths(paths) => {
                let paths = paths.iter().map(|path| crate::scope::escaped_path(path)).collect();
                Some(Scope { paths: Some(paths), ..Scope::default() })
            }
            Self::Tool(_) if guard!(GateNamedTool) => return None,
            Self::Tool(_) => None,
            Self::Program { folder: Some(folder), .. } if folder != project && guard!(ExecFolder) => {
                return None;
            }
            Self::Program { line, .. } => Some(Scope { commands: Some(vec![line.clone()?]), ..Scope::default() }),
            Self::Other(scope) => Some(scope.clone()),
        })
    }
}

#[cfg(test)]
#[path = "prompting_tests.rs"]
mod tests;
