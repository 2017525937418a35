//! Opens realms with the isolation that `--isolation` selects.

use crate::config::{Isolation, SessionConfig};
use crate::environment::Environment;
use crate::grants::UserDecisions;
use crate::text::clean;
use crate::user_error::{Result, UserError};
use pijs_host::{InThread, LoadError, OpenError, OpenRealm};
use pijs_hostcall::Mode;
use pijs_protocol::Termination;

/// Next step where extensions cannot be sealed and the policy requires it.
const ACCEPT: &str = "pass --accept-unsealed to run them all the same, or choose --policy prompt";

/// Returns the opener of realms: in sealed processes, or in the host's own thread.
///
/// On a system that cannot seal processes the user gets a notice. Under the strict policy that is an error, unless the user
/// accepts unsealed processes.
pub fn realms(
    config: &SessionConfig,
    environment: &Environment,
    decided: &UserDecisions,
) -> Result<Box<dyn OpenRealm>> {
    let sealed_only = decided.policy.mode == Mode::Strict && !config.permissions.accept_unsealed;
    if cfg!(not(target_os = "linux")) {
        if sealed_only {
            return Err(UserError::failed("this system cannot seal extensions, and the policy is strict").help(ACCEPT));
        }
        environment
            .notices
            .show("note: this system cannot seal extensions; they run inside pi, under its limits and its gate");
    }
    Ok(opener(config.isolation, environment, Terms { sealed_only, max_turn_ms: decided.max_turn_ms }))
}

/// Options of sealed processes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terms {
    /// Whether unsealed processes are refused.
    pub sealed_only: bool,
    /// Maximum duration of a turn, in place of the default.
    pub max_turn_ms: Option<u64>,
}

/// Returns the options for worker processes.
#[cfg(target_os = "linux")]
pub fn process_options(environment: &Environment, max_turn_ms: Option<u64>) -> pijs_realm::ProcessOptions {
    let options = pijs_realm::ProcessOptions {
        time_zone: environment.variable("TZ").map(Into::into),
        ..pijs_realm::ProcessOptions::default()
    };
    match max_turn_ms {
        Some(milliseconds) => options.turns_of(std::time::Duration::from_millis(milliseconds.max(1))),
        None => options,
    }
}

/// Returns the opener of an isolation without checking the policy.
#[cfg(target_os = "linux")]
pub fn opener(isolation: Isolation, environment: &Environment, terms: Terms) -> Box<dyn OpenRealm> {
    use pijs_host::InProcess;

    if isolation == Isolation::Thread {
        return Box::new(InThread);
    }
    let options = process_options(environment, terms.max_turn_ms);
    let notices = environment.notices.clone();
    let realms = InProcess::new(options).sealed_only(terms.sealed_only).on_incomplete(move |sealed| {
        notices.show(&format!("note: this kernel cannot seal extensions completely ({sealed}); see: pi ext limits"));
    });
    Box::new(realms)
}

/// Returns the opener of realms in the host's thread. Other systems have no sealed processes: [`Isolation::Process`] was rejected
/// when the command line was parsed.
#[cfg(not(target_os = "linux"))]
pub fn opener(_: Isolation, _: &Environment, _: Terms) -> Box<dyn OpenRealm> {
    Box::new(InThread)
}

/// Converts a load error to a failure with the next step.
pub fn not_loaded(error: &LoadError) -> UserError {
    let failure = UserError::failed(clean(&error.to_string()));
    match error {
        LoadError::Realm { error: OpenError::Unsealed(_), .. } => failure.help(ACCEPT),
        LoadError::Ended { reason: Termination::Timeout { quota }, .. } if quota != Termination::UNSETTLED => {
            failure.help(TOO_LONG)
        }
        LoadError::Ended { reason: Termination::OutOfMemory, .. } => failure.help(TOO_LARGE),
        LoadError::Ended { reason: Termination::Trapped { .. }, .. } => failure.help(TRAPPED),
        _ => failure,
    }
}

/// Messages, with the next step, for an extension that was stopped while it loaded.
const TOO_LONG: &str =
    "LD_TIME: loading it never ends, or takes too long; move work out of start functions and factories into handlers";
const TOO_LARGE: &str = "LD_MEMORY: it declares more memory than a realm has; declare less";
const TRAPPED: &str = "LD_TRAP: the component trapped, for example by a panic; tell its author";
