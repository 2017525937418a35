//! Controls requests to a model on a server that an extension chose.
//!
//! An extension that provides a model chooses the model's server, and a request contains text of the caller's choice. So a
//! request to a model that the user did not select counts as a request to a server:
//!
//! | the extension's `provider` | needs |
//! |---|---|
//! | the user was not asked about it (`-e FILE`, an installation without a user present) | `http`, as for a request of the extension to this server |
//! | the user agreed to it | `egress`, once the extension has read a file that may contain secrets |

use crate::host::Host;
use crate::record;
use pijs_hostcall::{Judgement, ParsedCall, Reason, Required, Subject};
use pijs_protocol::{ExtensionId, guard};
use serde_json::{Map, Value};

impl Host {
    /// Checks whether a request may be sent to this extension's model at `address` although the user did not select the model.
    /// The error contains the reason.
    pub async fn reaches(&self, extension: &ExtensionId, address: &str) -> Result<(), String> {
        if !guard!(EgressModelAddress) {
            return Ok(());
        }
        let caller = self.caller_of(extension);
        let gate = self.0.services.dispatcher.gate();
        let params = Map::from_iter([("url".to_owned(), Value::from(address))]);
        let call = ParsedCall::parse("http", params, Vec::new());
        let required = if gate.holds_unasked(&caller.profile, "provider") {
            call.as_ref().map_err(Clone::clone).and_then(ParsedCall::required).map_err(|error| error.message)?
        } else if gate.has_read_secrets(extension) {
            Required::new("egress", Subject::None)
        } else {
            return Ok(());
        };
        let decision = match gate.judge(&caller, "http", &required).map_err(|error| error.message)? {
            Judgement::Settled(decision) => decision,
            Judgement::Ask(..) => gate.ask(&caller, "http", &required).await.map_err(|error| error.message)?.0,
        };
        record::reached(&self.0.services, &caller, &decision);
        if decision.allowed {
            return Ok(());
        }
        let reason = decision.reason.map_or("denied", Reason::as_str);
        Err(format!(
            "the request to the model was not sent ({reason}): the extension {extension} chose its server and does not hold the capability \"{}\" for it",
            decision.capability
        ))
    }
}
