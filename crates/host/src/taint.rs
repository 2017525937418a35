//! Tool calls of the model that an extension is behind (rule R76).
//!
//! The model has rights that an extension lacks, and an extension that may speak to it could borrow them. So pi's own
//! tools are judged once more where an extension is behind the call, as a call of that extension: what it may do itself goes
//! on, for the rest a person is asked.
//!
//! | behind it | judged when | with nobody to ask |
//! |---|---|---|
//! | a message of the extension led to the turn | always | the policy `prompt` lets it pass, as pi does, and the ledger says so; `strict` refuses |
//! | it changed the input of the call, or put the call into the reply | nobody was asked about its `tool.modify`, or its `context.modify` | it is refused: no model wanted this |
//! | the reply is its own, by a model that no person chose | nobody was asked about its `provider` | the same |
//!
//! What no grant opens (protected places) stays closed.

use crate::host::Host;
use crate::record;
use pijs_hostcall::{Behind, Caller, Decision, Judgement, Profile, Reason, Rule, derive};
use pijs_protocol::{ExtensionId, guard};
use serde_json::{Map, Value, json};
use std::sync::Arc;

impl Host {
    /// Whether the model may call one of pi's own tools although this extension is behind the call. The error is for the
    /// model.
    pub async fn vouch(
        &self,
        extension: &ExtensionId,
        tool: &str,
        input: &Value,
        behind: Behind,
    ) -> Result<(), String> {
        let caller = self.caller_of(extension);
        let gate = self.0.dispatcher.gate();
        let (is_up, asks, how) = match behind {
            Behind::Message { asks } => (guard::is_up("door.taint"), asks, "a message of it led to this call"),
            Behind::Call(by) => {
                let unasked = gate.holds_unasked(&caller.profile, by);
                (unasked && guard::is_up("door.call"), true, "it changed what the model wanted")
            }
            Behind::Reply => {
                let unasked = gate.holds_unasked(&caller.profile, "provider");
                (unasked && guard::is_up("door.reply"), true, "the reply is its own")
            }
        };
        if !is_up {
            return Ok(());
        }
        let caller = caller.behind_model();
        let Some(decision) = self.judged(&caller, tool, input, asks).await else { return Ok(()) };
        let nobody = decision.rule == Rule::NoPerson && matches!(behind, Behind::Message { .. });
        let passes = decision.allowed || nobody;
        record::tainted(&self.0, &caller, tool, &decision, passes);
        if passes {
            return Ok(());
        }
        let reason = decision.reason.map_or("denied", Reason::as_str);
        let is_loaded = self.slots().iter().any(|slot| slot.cell.borrow().package.id() == extension);
        let who = if is_loaded { format!("the extension {extension}") } else { extension.to_string() };
        Err(format!(
            "{tool} was not run ({reason}): {who} is behind this call ({how}) and does not hold the \
             capability \"{}\" for it",
            decision.capability
        ))
    }

    /// Whether a command runs that this extension wrote into the editor and a person let stand.
    pub async fn lets_run(&self, extension: &ExtensionId, command: &str) -> bool {
        let caller = self.caller_of(extension);
        let input = json!({"command": command});
        self.judged(&caller, "bash", &input, true).await.is_some_and(|decision| decision.allowed)
    }

    /// Whether one of pi's own commands is done that this extension wrote and a person let stand: what it reaches is the
    /// person's, files of theirs and their log-ins, and no capability of an extension is about that.
    pub async fn lets_command(&self, extension: &ExtensionId, line: &str) -> bool {
        let caller = self.caller_of(extension);
        let what = "have pi do this in your place".to_owned();
        self.0.dispatcher.gate().consult(&caller, "session.control", what, line).await
    }

    pub(crate) fn caller_of(&self, extension: &ExtensionId) -> Caller {
        let known = self.slots().into_iter().find(|slot| slot.cell.borrow().package.id() == extension);
        match known {
            Some(slot) => slot.cell.borrow().caller.clone(),
            None => Caller::new(Arc::new(Profile::new(extension.clone()))),
        }
    }

    /// What the gate, and a person where there is one, say of a call of one of pi's own tools. `None` for one that makes no
    /// sense: the tool refuses it, in its own words.
    async fn judged(&self, caller: &Caller, tool: &str, input: &Value, asks: bool) -> Option<Decision> {
        let params = Map::from_iter([("name".to_owned(), Value::from(tool)), ("input".to_owned(), input.clone())]);
        let required = derive("tool", &params).ok()?;
        let gate = self.0.dispatcher.gate();
        match gate.judge(caller, "tool", &required).ok()? {
            Judgement::Settled(decision) => Some(decision),
            Judgement::Ask(_, decision) if !asks => Some(decision.because(Reason::NonInteractive, Rule::NoPerson)),
            Judgement::Ask(..) => gate.ask(caller, "tool", &required).await.ok().map(|(decision, _)| decision),
        }
    }
}
