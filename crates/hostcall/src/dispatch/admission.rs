//! Checks that a call passes before its connector: shape, quotas, capability, decision, ledger.

use super::{DispatcherInner, ReadCall};
use crate::caller::Caller;
use crate::connector::Connector;
use crate::decision::{Decision, Reason};
use crate::derive::ParsedCall;
use crate::gate::{CURE, Permit};
use crate::ledger::{CallFacts, CallStart};
use crate::output::unrecorded;
use crate::policy::Mode;
use crate::prompt::shown;
use crate::quota::used_up;
use crate::risk::Signal;
use crate::subject::{Required, Subject};
use crate::traced;
use crate::vocabulary::FREE;
use pijs_protocol::{HostcallError, Now, guard};
use std::sync::{Arc, PoisonError};

/// Ops of `ui` that wait for the user.
const DIALOGS: &[&str] = &["select", "confirm", "input", "editor", "custom"];

/// Period of the limit on dialogs.
const DIALOG_PERIOD_US: u64 = 60_000_000;

/// Maximum length of a call id and of a cancel token, in bytes.
const MAX_ID_BYTES: usize = 128;

/// A call that passed every check before the connector.
pub(super) struct Admitted {
    pub(super) connector: Arc<dyn Connector>,
    pub(super) decision: Decision,
    pub(super) permit: Permit,
}

/// Facts about a call before its decision.
pub(super) struct ReceivedCall {
    pub(super) now: Now,
    pub(super) facts: CallFacts,
    /// The connector of the method.
    pub(super) connector: Option<Arc<dyn Connector>>,
    pub(super) span: tracing::Span,
}

/// A call that the gate, or the user, has decided.
pub(super) struct DecidedCall<'a> {
    pub(super) connector: Arc<dyn Connector>,
    pub(super) required: Required<'a>,
    pub(super) decision: Decision,
    pub(super) permit: Permit,
    /// Time of the decision.
    pub(super) at: Now,
}

impl DispatcherInner {
    /// Determines the time, id and hash of a call, and the capability that it needs, before any decision.
    pub(super) fn open<'a>(
        &self,
        caller: &Caller,
        call: &'a ReadCall,
    ) -> (ReceivedCall, Result<Required<'a>, HostcallError>) {
        let now = self.timer.now();
        let ReadCall { head, parsed, params_hash, .. } = call;
        let id = head.call_id.as_str();
        // Truncated to the limit, because the id goes into every line.
        let call_id = if id.len() <= MAX_ID_BYTES {
            head.call_id.clone()
        } else {
            id[..id.floor_char_boundary(MAX_ID_BYTES)].into()
        };
        let served = self.connectors.get_key_value(head.method.as_str());
        let required = parsed.as_ref().map_err(Clone::clone).and_then(|parsed| self.gate.derive(parsed));
        let facts = CallFacts {
            call_id,
            method: served.map_or(&self.unknown, |(name, _)| name).clone(),
            capability: required.as_ref().map_or("unknown", |required| required.capability),
            params_hash: params_hash.clone(),
        };
        let span = traced::call(caller, &facts.call_id, &facts.method, facts.capability);
        let connector = served.map(|(_, connector)| Arc::clone(connector));
        (ReceivedCall { now, facts, connector, span }, required)
    }

    /// Checks that a call is well-formed and within its quotas.
    pub(super) fn admit<'a>(
        &self,
        caller: &Caller,
        call: &ReadCall,
        opened: &ReceivedCall,
        required: Result<Required<'a>, HostcallError>,
    ) -> Result<(Arc<dyn Connector>, Required<'a>), HostcallError> {
        call.size.as_ref().map_err(Clone::clone)?;
        let is_dialog = call.head.method == "ui" && DIALOGS.contains(&call.untyped_op());
        let call = &call.head;
        let id = call.call_id.as_str();
        if id.is_empty() || id.len() > MAX_ID_BYTES || id.chars().any(char::is_control) {
            return Err(HostcallError::invalid("schema", format!("a call id has 1 to {MAX_ID_BYTES} characters")));
        }
        if call.cancel_token.as_ref().is_some_and(|token| token.is_empty() || token.len() > MAX_ID_BYTES) {
            return Err(HostcallError::invalid("schema", format!("a cancel token has 1 to {MAX_ID_BYTES} characters")));
        }
        let required = required?;
        if call.capability.as_str() != required.capability && guard!(GateClaimed) {
            return Err(HostcallError::invalid(
                "capability_mismatch",
                format!(
                    "{}: this call needs the capability `{}`, but names {:?}",
                    call.method,
                    required.capability,
                    shown(call.capability.as_str(), MAX_ID_BYTES)
                ),
            )
            .with("capability", required.capability));
        }
        let connector = opened.connector.clone().ok_or_else(|| {
            HostcallError::invalid("schema", format!("`{}` is not available in this host", call.method))
                .with("method", call.method.as_str())
        })?;
        if is_dialog {
            self.dialog(caller, opened.now)?;
        }
        Ok((connector, required))
    }

    /// Counts dialogs, so that an extension cannot exhaust the user with dialogs.
    fn dialog(&self, caller: &Caller, now: Now) -> Result<(), HostcallError> {
        if !guard!(QuotaDialogs) {
            return Ok(());
        }
        let mut dialogs = self.dialogs.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = dialogs.entry(caller.extension().clone()).or_default();
        opened.retain(|at| now.elapsed_us.saturating_sub(*at) < DIALOG_PERIOD_US);
        if opened.len() >= self.quotas.dialogs_per_minute {
            return Err(used_up("dialogs_per_minute", self.quotas.dialogs_per_minute));
        }
        opened.push_back(now.elapsed_us);
        Ok(())
    }

    /// Records the decision and the start of the call; turns a refusal into the error for the extension.
    pub(super) fn begin(
        &self,
        caller: &Caller,
        call: &ReadCall,
        opened: &ReceivedCall,
        judged: Result<DecidedCall<'_>, HostcallError>,
    ) -> Result<Admitted, HostcallError> {
        let ReadCall { head, parsed, .. } = call;
        let decided = judged.as_ref().ok().map(|judged| (judged.at, &judged.required, &judged.decision));
        if let Some((_, _, decision)) = &decided {
            traced::decided(&opened.span, decision);
        }
        let is_refused = decided.is_none_or(|(_, _, decision)| !decision.allowed);
        let derived = opened.facts.capability;
        let is_mismatch = is_refused && derived != "unknown" && derived != head.capability.as_str();
        if is_mismatch {
            self.gate.observe(&caller.profile, Signal::Spoofed);
        }
        let start = CallStart {
            call: opened.facts.clone(),
            claimed: is_mismatch.then(|| shown(head.capability.as_str(), MAX_ID_BYTES)),
            timeout_ms: head.timeout_ms,
        };
        self.ledger.call_start(opened.now, caller, decided, start);
        let DecidedCall { connector, required, decision, permit, .. } = judged?;
        let content_read = parsed.as_ref().ok().and_then(ParsedCall::content_read);
        self.observe(caller, content_read, &required, &decision);
        if decision.allowed {
            Ok(Admitted { connector, decision, permit })
        } else {
            let mut refusal = decision.refusal(&head.method, &required.subject);
            let command = self.gate.note_refused(caller, &required, decision.reason, &refusal);
            // `pi.exec` does not throw: its caller shows this message as the output of the program.
            if required.capability == "exec"
                && let Some(command) = command
            {
                refusal.message.push_str(&format!("{CURE}{command}"));
            }
            Err(refusal)
        }
    }

    /// Records the evidence that a decided call provides about its extension.
    fn observe(&self, caller: &Caller, content_read: Option<&str>, required: &Required<'_>, decision: &Decision) {
        if let Some(path) = content_read.filter(|_| decision.allowed) {
            self.gate.note_read(caller.extension(), path);
        }
        if decision.allowed && matches!(required.capability, "exec" | "http") {
            self.gate.note_outside(caller.extension());
        }
        if let (Subject::Code { path, .. }, true) = (&required.subject, decision.allowed) {
            // From now on the file is code of the extension, which other extensions may not change.
            let file = std::fs::canonicalize(path).ok().filter(|file| file.is_file());
            self.gate.add_code(caller.extension(), file);
        }
        if decision.reason == Some(Reason::ProtectedPath) {
            self.gate.observe(&caller.profile, Signal::TriedProtected);
        }
        let is_text_probe = matches!(required.subject, Subject::Code { .. }) && required.is_probe;
        let privileged = !is_text_probe
            && matches!(required.capability, "write" | "exec" | "http" | "eval")
            && required.subject != Subject::Handle;
        if privileged && self.gate.was_unforeseen(&caller.profile, required.capability) {
            self.gate.observe(&caller.profile, Signal::Unforeseen);
        }
    }

    /// Writes a call with external effects to the ledger's sink before it begins; in strict mode, a ledger failure refuses the
    /// call.
    pub(super) fn ledger_first(&self, decision: &Decision) -> Result<(), HostcallError> {
        if FREE.contains(&decision.capability) || matches!(decision.capability, "read" | "env") {
            return Ok(());
        }
        match self.ledger.flush() {
            Err(error) if self.gate.policy().mode == Mode::Strict && guard!(LedgerFirst) => Err(unrecorded(&error)),
            _ => Ok(()),
        }
    }
}
