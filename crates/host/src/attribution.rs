//! Attributes tool calls of the model to the extensions that caused them (`docs/spec/capabilities.md`, The model).
//!
//! The model has rights that an extension lacks, and an extension that can address the model could borrow them. So a call of one
//! of pi's own tools, or of an MCP server's tool, that an extension caused is also judged as a call of that extension: it passes
//! if the extension has the right, otherwise the user is prompted.
//!
//! | cause | judged when | without a user to prompt |
//! |---|---|---|
//! | a message of the extension led to the turn | always | the policy `prompt` lets it pass, as pi does, and the ledger records it; `strict` refuses |
//! | the extension changed the input of the call, or put the call into the reply | the user was not asked about its `tool.modify`, or its `context.modify` | refused: no model requested the call |
//! | the extension supplied the reply, as a model that the user did not select | the user was not asked about its `provider` | refused |
//! | the extension started the session (`exec:pi`) | never | - |
//!
//! Protected paths, which no grant opens, stay closed in all of these cases.
//!
//! A path may be a link, or become one. So a call that passes runs under the extension's [`Permit`], which checks every path that
//! is really accessed. The prompt shows the target of the path as well.

use crate::host::Host;
use crate::record;
use pijs_durable::without_links;
use pijs_hostcall::places::ProgramView;
use pijs_hostcall::policy::Mode;
use pijs_hostcall::subject::{PathForm, PathUse};
use pijs_hostcall::{
    Access, Caller, CommandLimits, Decision, Judgement, ModelCall, ParsedCall, Permit, Profile, Reason, Rule,
};
use pijs_protocol::{ExtensionId, guard};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The influence of an extension on a model's call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// A message of the extension led to the turn.
    Message {
        /// Whether the user may be prompted.
        asks: bool,
    },
    /// The extension changed the arguments of a tool, or called the tool in the place of the model, with this capability.
    Call(&'static str),
    /// The extension wrote the reply: it provides the model, which the user did not choose.
    Reply,
    /// The extension started this program, and so chose the task of the session. This applies to every call.
    Starter,
}

/// Authority of a model's call that an extension influenced.
#[derive(Debug)]
pub struct ModelCallAuthority {
    /// Permit under which the call runs; it checks every file that is accessed.
    pub permit: Permit,
    /// Restrictions of a command.
    pub limits: CommandLimits,
}

impl ModelCallAuthority {
    /// Adds the restrictions of another extension that influenced the call.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let (own, others) = (self.limits, other.limits);
        let hides_secrets = own.view.hides_secrets || others.view.hides_secrets;
        let view = if own.view.is_open() { others.view } else { own.view };
        let limits =
            CommandLimits { view: ProgramView { hides_secrets, ..view }, author: own.author.or(others.author) };
        Self { permit: self.permit.and(other.permit), limits }
    }
}

impl Host {
    /// Returns the authority of a call of one of pi's own tools that this extension influenced; `None` if the model's own rights
    /// apply. The error is a message for the model.
    pub async fn vouch(
        &self,
        extension: &ExtensionId,
        tool: &str,
        input: &Value,
        behind: Behind,
    ) -> Result<Option<ModelCallAuthority>, String> {
        let caller = self.caller_of(extension);
        let gate = self.0.services.dispatcher.gate();
        if behind == Behind::Starter {
            let is_bound = guard!(AttributionStartedFiles) && !self.reads_own_result(tool, input);
            let bound = || ModelCallAuthority {
                permit: gate.permit(&caller.behind_model(), "tool").of_model(ModelCall::LedUnasked),
                limits: CommandLimits { view: gate.places().program_view(), author: None },
            };
            return Ok(is_bound.then(bound));
        }
        let Some((asks, how)) = self.attributed(&caller, behind) else { return Ok(None) };
        let by_itself = caller.clone();
        let caller = caller.behind_model();
        let is_led = matches!(behind, Behind::Message { .. });
        if is_led && self.reads_own_result(tool, input) {
            return Ok(None);
        }
        let Some((decision, permit)) = self.judged(&caller, tool, input, asks).await else {
            let permit = gate.permit(&caller, "tool");
            return Ok(Some(ModelCallAuthority { limits: limits_of_program(&permit), permit }));
        };
        let (decision, permit) = match self.real_input(input) {
            Some(real) if decision.allowed && guard!(AttributionRealPath) => {
                match self.judged(&caller, tool, &real, asks).await {
                    Some((at_real, by_real)) => (at_real, permit.with_once_of(by_real)),
                    None => (decision, permit),
                }
            }
            _ => (decision, permit),
        };
        let nobody = decision.rule == Rule::NoPerson && is_led;
        let passes = decision.allowed || nobody;
        record::tainted(&self.0.services, &caller, tool, &decision, passes);
        if passes {
            let call = match is_led {
                false => ModelCall::Bound,
                true if asks && gate.has_person() => ModelCall::Led,
                true => ModelCall::LedUnasked,
            };
            let may_by_itself = || {
                let by_itself = self.judgement(&by_itself, tool, input);
                matches!(by_itself, Some(Judgement::Settled(decision)) if decision.allowed)
            };
            // A call of the model that the user agreed to runs with the model's rights.
            let is_agreed_to = is_led && decision.allowed && !may_by_itself();
            // After a message of an extension, the model goes on with the user's work, which may need keys.
            let is_models = is_led && gate.policy().mode != Mode::Strict;
            let limits = match is_agreed_to {
                true => CommandLimits::default(),
                false if is_models => CommandLimits { view: gate.places().program_view(), author: None },
                false => limits_of_program(&permit),
            };
            let bound = ModelCallAuthority { permit: permit.of_model(call), limits };
            return Ok(guard!(AttributionBoundPaths).then_some(bound));
        }
        Err(self.not_run(extension, tool, how, &decision))
    }

    /// Judges a use of an MCP server that this extension influenced. `params` are the parameters of the hostcall `mcp` that
    /// `tool` makes; the server's own caller is checked as well. The error is a message for the model.
    pub async fn vouch_mcp(
        &self,
        extension: &ExtensionId,
        tool: &str,
        params: Value,
        behind: Behind,
    ) -> Result<(), String> {
        let caller = self.caller_of(extension);
        let Some((asks, how)) = self.attributed(&caller, behind).filter(|_| guard!(AttributionMcp)) else {
            return Ok(());
        };
        let caller = caller.behind_model();
        let params = match params {
            Value::Object(params) => params,
            _ => Map::new(),
        };
        // An invalid call is refused later, when it is made.
        let Some((decision, _)) = self.decided(&caller, "mcp", params, asks).await else { return Ok(()) };
        let nobody = decision.rule == Rule::NoPerson && matches!(behind, Behind::Message { .. });
        let passes = decision.allowed || nobody;
        record::tainted(&self.0.services, &caller, tool, &decision, passes);
        if passes { Ok(()) } else { Err(self.not_run(extension, tool, how, &decision)) }
    }

    /// Returns how the extension influenced a call of the model that is judged as its own, and whether the user may be prompted.
    /// `None` if the call is not judged.
    fn attributed(&self, caller: &Caller, behind: Behind) -> Option<(bool, &'static str)> {
        let (is_up, asks, how) = match behind {
            Behind::Message { asks } => {
                (guard!(AttributionMessage), asks, "the call follows a message of the extension")
            }
            Behind::Call(by) => {
                let unasked = self.0.services.dispatcher.gate().holds_unasked(&caller.profile, by);
                (unasked && guard!(AttributionChangedCall), true, "the extension changed the model's call")
            }
            Behind::Reply => (
                self.answers_unasked(caller.extension()) && guard!(AttributionReply),
                true,
                "the extension wrote the reply",
            ),
            Behind::Starter => return None,
        };
        is_up.then_some((asks, how))
    }

    /// Formats the reason that a tool was not run, for the model.
    fn not_run(&self, extension: &ExtensionId, tool: &str, how: &str, decision: &Decision) -> String {
        let reason = decision.reason.map_or("denied", Reason::as_str);
        let is_loaded = self.slots().iter().any(|slot| slot.cell.borrow().package.id() == extension);
        let who = if is_loaded { format!("the extension {extension}") } else { extension.to_string() };
        format!(
            "{tool} was not run ({reason}): {who} caused this call ({how}) and does not have the \
             capability \"{}\" for it",
            decision.capability
        )
    }

    /// Returns whether an extension may answer requests to models without the user's consent.
    pub fn answers_unasked(&self, extension: &ExtensionId) -> bool {
        self.0.services.dispatcher.gate().holds_unasked(&self.caller_of(extension).profile, "provider")
    }

    /// Decides whether a shell command runs that this extension put into the editor and the user submitted. Returns its
    /// restrictions.
    pub async fn lets_run(&self, extension: &ExtensionId, command: &str) -> Option<CommandLimits> {
        let caller = self.caller_of(extension);
        let input = json!({"command": command});
        let (decision, permit) = self.judged(&caller, "bash", &input, true).await?;
        decision.allowed.then(|| limits_of_program(&permit))
    }

    /// Decides whether one of pi's own commands runs that this extension wrote and the user submitted. Such a command accesses
    /// the user's files and sign-ins, which no capability of an extension covers, so the user is asked.
    pub async fn lets_command(&self, extension: &ExtensionId, line: &str) -> bool {
        let caller = self.caller_of(extension);
        let what = "run this command of pi for you".to_owned();
        self.0.services.dispatcher.gate().consult(&caller, "session.control", what, line).await
    }

    pub(crate) fn caller_of(&self, extension: &ExtensionId) -> Caller {
        let known = self.slots().into_iter().find(|slot| slot.cell.borrow().package.id() == extension);
        match known {
            Some(slot) => slot.cell.borrow().caller.clone(),
            None => Caller::new(Arc::new(Profile::new(extension.clone()))),
        }
    }

    /// Returns whether the model reads the full version of a truncated tool result of this session. Extensions cannot access
    /// the folder, so the name cannot be redirected.
    fn reads_own_result(&self, tool: &str, input: &Value) -> bool {
        let gate = self.0.services.dispatcher.gate();
        let path = ["path", "file_path"].into_iter().find_map(|key| input.get(key).and_then(Value::as_str));
        let used = path.map(|path| PathUse { access: Access::Read, path, form: PathForm::Tool });
        let named = used.and_then(|used| gate.places().absolute(used).ok());
        tool == "read" && named.is_some_and(|path| gate.results().is_some_and(|results| results.has(&path)))
    }

    /// Returns the input with its path replaced by the resolved path, if the two differ.
    fn real_input(&self, input: &Value) -> Option<Value> {
        let key = ["path", "file_path"].into_iter().find(|key| input.get(*key).is_some_and(Value::is_string))?;
        let places = self.0.services.dispatcher.gate().places();
        let path = input.get(key)?.as_str()?;
        let named = places.absolute(PathUse { access: Access::Read, path, form: PathForm::Tool }).ok()?;
        let real = without_links(&named);
        (real != named).then(|| {
            let mut input = input.clone();
            input[key] = json!(real);
            input
        })
    }

    fn judgement(&self, caller: &Caller, tool: &str, input: &Value) -> Option<Judgement> {
        let params = Map::from_iter([("name".to_owned(), Value::from(tool)), ("input".to_owned(), input.clone())]);
        let call = ParsedCall::parse("tool", params, Vec::new()).ok()?;
        let required = call.required().ok()?;
        self.0.services.dispatcher.gate().judge(caller, "tool", &required).ok()
    }

    /// Asks the gate, and the user if present, to decide a call of a built-in tool. Returns `None` for invalid arguments, which
    /// the tool refuses with its own message.
    async fn judged(&self, caller: &Caller, tool: &str, input: &Value, asks: bool) -> Option<(Decision, Permit)> {
        let params = Map::from_iter([("name".to_owned(), Value::from(tool)), ("input".to_owned(), input.clone())]);
        self.decided(caller, "tool", params, asks).await
    }

    /// Asks the gate, and the user if present, to decide a call of `method`. Returns `None` for an invalid call.
    async fn decided(
        &self,
        caller: &Caller,
        method: &'static str,
        params: Map<String, Value>,
        asks: bool,
    ) -> Option<(Decision, Permit)> {
        let call = ParsedCall::parse(method, params, Vec::new()).ok()?;
        let required = call.required().ok()?;
        let gate = self.0.services.dispatcher.gate();
        let decision = match gate.judge(caller, method, &required).ok()? {
            Judgement::Settled(decision) => decision,
            Judgement::Ask(_, decision) if !asks => decision.because(Reason::NonInteractive, Rule::NoPerson),
            Judgement::Ask(..) => return gate.ask(caller, method, &required).await.ok(),
        };
        Some((decision, gate.permit(caller, method)))
    }
}

/// Returns the limits of a command that runs as a program of the permit's extension.
fn limits_of_program(permit: &Permit) -> CommandLimits {
    let view = ProgramView { hides_secrets: true, ..permit.places().program_view() };
    CommandLimits { view, author: Some(permit.clone()) }
}
