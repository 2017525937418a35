//! Tool calls of the model in turns that an extension's message led to (rule R76).
//!
//! The model has rights that an extension lacks, and an extension that may speak to it could borrow them. So pi's own
//! tools are judged once more in such a turn, as a call of that extension: what it may do itself goes on, for the rest a
//! person is asked. Where nobody can be asked the policy `prompt` lets it pass, as pi does, and the ledger says so;
//! `strict` refuses. What no grant opens (protected places) stays closed.

use crate::host::Host;
use crate::record;
use pijs_hostcall::{Caller, Judgement, Profile, Reason, Rule, derive};
use pijs_protocol::{ExtensionId, guard};
use serde_json::{Map, Value};
use std::sync::Arc;

impl Host {
    /// Whether the model may call one of pi's own tools although a message of this extension led to it. With `asks` a
    /// person may be asked. The error is for the model.
    pub async fn vouch(&self, extension: &ExtensionId, tool: &str, input: &Value, asks: bool) -> Result<(), String> {
        if !guard::is_up("door.taint") {
            return Ok(());
        }
        let known = self.slots().into_iter().find(|slot| slot.cell.borrow().package.id() == extension);
        let caller = match known {
            Some(slot) => slot.cell.borrow().caller.clone(),
            None => Caller::new(Arc::new(Profile::new(extension.clone()))),
        };
        let caller = caller.behind_model();
        let params = Map::from_iter([("name".to_owned(), Value::from(tool)), ("input".to_owned(), input.clone())]);
        // A call that makes no sense is refused by the tool itself, in its own words.
        let Ok(required) = derive("tool", &params) else { return Ok(()) };
        let gate = self.0.dispatcher.gate();
        let decision = match gate.judge(&caller, "tool", &required) {
            Err(_) => return Ok(()),
            Ok(Judgement::Settled(decision)) => decision,
            Ok(Judgement::Ask(_, decision)) if !asks => decision.because(Reason::NonInteractive, Rule::NoPerson),
            Ok(Judgement::Ask(..)) => match gate.ask(&caller, "tool", &required).await {
                Ok((decision, _)) => decision,
                Err(_) => return Ok(()),
            },
        };
        let passes = decision.allowed || decision.rule == Rule::NoPerson;
        record::tainted(&self.0, &caller, tool, &decision, passes);
        if passes {
            return Ok(());
        }
        let reason = decision.reason.map_or("denied", Reason::as_str);
        Err(format!(
            "{tool} was not run ({reason}): a message of the extension {extension} led to this call, and {extension} does \
             not hold the capability \"{}\" for it",
            decision.capability
        ))
    }
}
