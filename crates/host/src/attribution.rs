//! Attributes tool calls of the model to the extensions that caused them (`docs/spec/capabilities.md`, The model).
//!
//! The model has rights that an extension lacks, and an extension that can address the model could borrow them. So a call of pi's
//! own tools or of an MCP server's that an extension caused is also judged as a call of that extension: what the extension may do
//! passes, for the rest the user is prompted.
//!
//! | behind it | judged when | with nobody to ask |
//! |---|---|---|
//! | a message of the extension led to the turn | always | the policy `prompt` lets it pass, as pi does, and the ledger says so; `strict` refuses |
//! | it changed the input of the call, or put the call into the reply | nobody was asked about its `tool.modify`, or its `context.modify` | it is refused: no model wanted this |
//! | the reply is its own, by a model that no person chose | nobody was asked about its `provider` | the same |
//!
//! Protected paths, which no grant opens, stay closed.
//!
//! A path may be a link, or become one. So a call that passes runs under the extension's [`Permit`], which checks every path that
//! is really accessed. The prompt shows the target of the path as well.

use crate::host::Host;
use crate::record;
use pijs_durable::without_links;
use pijs_hostcall::subject::{PathForm, PathUse};
use pijs_hostcall::{
    Access, Behind, Caller, Decision, Judgement, ModelCall, ParsedCall, Permit, Profile, Reason, Rule,
};
use pijs_protocol::{ExtensionId, guard};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Authority of a model's call that an extension influenced.
#[derive(Debug)]
pub struct ModelCallAuthority {
    /// Checks every file that is accessed.
    pub permit: Permit,
    /// Whether a command runs like a program of the extension: without access to PiJS's own files.
    pub is_own_program: bool,
}

impl ModelCallAuthority {
    /// Adds the restrictions of another extension that influenced the call.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let is_own_program = self.is_own_program || other.is_own_program;
        Self { permit: self.permit.and(other.permit), is_own_program }
    }
}

impl Host {
    /// Returns the authority of a call of one of pi's own tools that this extension influenced; `None` where the model's own
    /// rights apply. The error is for the model.
    pub async fn vouch(
        &self,
        extension: &ExtensionId,
        tool: &str,
        input: &Value,
        behind: Behind,
    ) -> Result<Option<ModelCallAuthority>, String> {
        let caller = self.caller_of(extension);
        let gate = self.0.services.dispatcher.gate();
        let Some((asks, how)) = self.attributed(&caller, behind) else { return Ok(None) };
        let by_itself = caller.clone();
        let caller = caller.behind_model();
        let is_led = matches!(behind, Behind::Message { .. });
        if is_led && self.reads_own_result(tool, input) {
            return Ok(None);
        }
        let Some((decision, permit)) = self.judged(&caller, tool, input, asks).await else {
            return Ok(Some(ModelCallAuthority { permit: gate.permit(&caller, "tool"), is_own_program: true }));
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
            // A call that the user agreed to runs with the model's rights.
            let is_own_program = !is_led && decision.allowed && {
                let by_itself = self.judgement(&by_itself, tool, input);
                matches!(by_itself, Some(Judgement::Settled(decision)) if decision.allowed)
            };
            let bound = ModelCallAuthority { permit: permit.of_model(call), is_own_program };
            return Ok(guard!(AttributionBoundPaths).then_some(bound));
        }
        Err(self.not_run(extension, tool, how, &decision))
    }

    /// Judges a use of an MCP server that this extension influenced. `params` are those of the hostcall `mcp` that `tool` makes,
    /// for which the server's own caller is checked as well. The error is for the model.
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
        // An invalid call is refused when it is made.
        let Some((decision, _)) = self.decided(&caller, "mcp", params, asks).await else { return Ok(()) };
        let nobody = decision.rule == Rule::NoPerson && matches!(behind, Behind::Message { .. });
        let passes = decision.allowed || nobody;
        record::tainted(&self.0.services, &caller, tool, &decision, passes);
        if passes { Ok(()) } else { Err(self.not_run(extension, tool, how, &decision)) }
    }

    /// Returns whether a call of the model is judged as one of this extension: whether the user may be prompted, and how the
    /// extension influenced it.
    fn attributed(&self, caller: &Caller, behind: Behind) -> Option<(bool, &'static str)> {
        let (is_up, asks, how) = match behind {
            Behind::Message { asks } => (guard!(AttributionMessage), asks, "a message of it led to this call"),
            Behind::Call(by) => {
                let unasked = self.0.services.dispatcher.gate().holds_unasked(&caller.profile, by);
                (unasked && guard!(AttributionChangedCall), true, "it changed what the model wanted")
            }
            Behind::Reply => {
                (self.answers_unasked(caller.extension()) && guard!(AttributionReply), true, "the reply is its own")
            }
        };
        is_up.then_some((asks, how))
    }

    /// Formats the reason that a tool was not run, for the model.
    fn not_run(&self, extension: &ExtensionId, tool: &str, how: &str, decision: &Decision) -> String {
        let reason = decision.reason.map_or("denied", Reason::as_str);
        let is_loaded = self.slots().iter().any(|slot| slot.cell.borrow().package.id() == extension);
        let who = if is_loaded { format!("the extension {extension}") } else { extension.to_string() };
        format!(
            "{tool} was not run ({reason}): {who} is behind this call ({how}) and does not hold the \
             capability \"{}\" for it",
            decision.capability
        )
    }

    /// Returns whether an extension may answer requests to models without the user's consent.
    pub fn answers_unasked(&self, extension: &ExtensionId) -> bool {
        self.0.services.dispatcher.gate().holds_unasked(&self.caller_of(extension).profile, "provider")
    }

    /// Returns whether a command runs that this extension put into the editor and the user submitted.
    pub async fn lets_run(&self, extension: &ExtensionId, command: &str) -> bool {
        let caller = self.caller_of(extension);
        let input = json!({"command": command});
        self.judged(&caller, "bash", &input, true).await.is_some_and(|(decision, _)| decision.allowed)
    }

    /// Returns whether one of pi's own commands runs that this extension wrote and the user submitted: it accesses the user's
    /// files and sign-ins, which no capability of an extension covers.
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

    /// Returns whether the model reads the whole of a result whose end it has seen in this session. The folder is closed to
    /// extensions, so the name cannot be redirected.
    fn reads_own_result(&self, tool: &str, input: &Value) -> bool {
        let gate = self.0.services.dispatcher.gate();
        let path = ["path", "file_path"].into_iter().find_map(|key| input.get(key).and_then(Value::as_str));
        let used = path.map(|path| PathUse { access: Access::Read, path, form: PathForm::Tool });
        let named = used.and_then(|used| gate.places().absolute(used).ok());
        tool == "read" && named.is_some_and(|path| gate.results().is_some_and(|results| results.has(&path)))
    }

    /// Returns the input with the target of its path, if that differs.
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

    /// Returns the decision of the gate, and of the user if there is one, about a call of a built-in tool. `None` for invalid
    /// arguments, which the tool refuses with its own message.
    async fn judged(&self, caller: &Caller, tool: &str, input: &Value, asks: bool) -> Option<(Decision, Permit)> {
        let params = Map::from_iter([("name".to_owned(), Value::from(tool)), ("input".to_owned(), input.clone())]);
        self.decided(caller, "tool", params, asks).await
    }

    /// Asks the gate, and the user if present, about a call of `method`. `None` for an invalid one.
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
