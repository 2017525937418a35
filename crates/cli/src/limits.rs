//! `pi ext limits`: prints the limits of an extension, and the isolation on this machine.
//!
//! The isolation is measured: a worker is started and inspected from outside.

use crate::output::stdout;
use pijs_host::HostOptions;
use pijs_hostcall::Quotas;
use pijs_runtime::Environment;
use pijs_runtime::compile::Compiler;
use pijs_runtime::grants::UserDecisions;
use pijs_runtime::realm_limits;
use pijs_runtime::{Result, UserError};
use serde_json::{Map, Value, json};

/// `pi ext limits`.
pub(crate) fn print(environment: &Environment, as_json: bool) -> Result<()> {
    let decided = UserDecisions::of_settings(environment)?;
    let limits = numbers(environment, &decided);
    let walls = walls(environment, &decided)?;
    if as_json {
        stdout(&json!({ "limits": limits, "walls": walls }).to_string());
        return Ok(());
    }
    stdout("An extension may use up:");
    for (name, value) in &limits {
        stdout(&format!("  {name:<24}{value}"));
    }
    stdout("Around each extension, as found on this machine:");
    for (name, value) in &walls {
        stdout(&format!("  {name:<24}{}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
    }
    Ok(())
}

fn numbers(environment: &Environment, decided: &UserDecisions) -> Map<String, Value> {
    #[cfg(not(target_os = "linux"))]
    let _ = environment;
    let options = HostOptions::default();
    let limits = realm_limits(decided);
    let quotas = Quotas::default();
    let verdicts = pijs_agent::VerdictCaps::default();
    let rows = [
        ("memory_bytes", json!(limits.memory_bytes)),
        ("stack_bytes", json!(limits.stack_bytes)),
        ("turn_fuel", json!(limits.fuel)),
        ("turn_jobs", json!(limits.jobs)),
        ("verdict_fuel", json!(limits.stream_fuel)),
        ("verdict_soft_ms", json!(options.verdict.soft_us / 1000)),
        ("verdict_kill_ms", json!(options.verdict.kill_us / 1000)),
        ("timers", json!(limits.timers)),
        ("calls_in_flight", json!(quotas.in_flight)),
        ("call_bytes", json!(quotas.params_bytes)),
        ("call_depth", json!(quotas.depth)),
        ("attachment_bytes", json!(quotas.attachment_bytes)),
        ("result_bytes", json!(quotas.result_bytes)),
        ("piece_bytes", json!(quotas.piece_bytes)),
        ("piece_values", json!(quotas.piece_values)),
        ("stream_bytes", json!(quotas.stream_bytes)),
        ("lookups", json!(pijs_connectors::LOOKUPS)),
        ("answer_bytes", json!(pijs_host::ANSWER_BYTES)),
        ("registration_bytes", json!(pijs_host::REGISTRATION_BYTES)),
        ("verdict_text_bytes", json!(pijs_host::RETRY_BYTES)),
        ("verdict_retries", json!(verdicts.extension.per_session)),
        ("verdict_retries_of_rule", json!(verdicts.rule.per_session)),
        ("discarded_replies", json!(verdicts.discarded)),
        ("discarded_tokens", json!(verdicts.burned_tokens)),
        ("model_requests", json!(decided.asks.at_once)),
        ("model_tokens", json!(decided.asks.tokens)),
        ("session_bytes", json!(pijs_agent::SESSION_BYTES)),
        ("quarantine_after", json!(options.restarts.ends)),
        ("quarantine_within_s", json!(options.restarts.window_us / 1_000_000)),
    ];
    let mut rows: Map<String, Value> = rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    #[cfg(target_os = "linux")]
    {
        let process = pijs_runtime::isolation::process_options(environment, decided.max_turn_ms);
        let milliseconds = |time: std::time::Duration| json!(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        rows.insert("turn_deadline_ms".to_owned(), milliseconds(process.turn));
        rows.insert("start_deadline_ms".to_owned(), milliseconds(process.start));
        rows.insert("frame_bytes".to_owned(), json!(pijs_realm::frame::MAX_FRAME));
    }
    rows
}

#[cfg(target_os = "linux")]
fn walls(environment: &Environment, decided: &UserDecisions) -> Result<Map<String, Value>> {
    use pijs_protocol::wire::RealmOptions;
    use pijs_protocol::{HostCall, HostResult, HostcallError, Now, SyncReply};
    use pijs_realm::{ProcessRealm, SyncHost};

    struct Nobody;
    impl SyncHost for Nobody {
        fn call(&mut self, call: HostCall) -> SyncReply {
            let error = HostcallError::invalid("schema", "this realm is only inspected");
            SyncReply { result: HostResult::failed(call.call_id, error), now: Now::default(), state: None }
        }
    }

    let options = RealmOptions {
        extension: "limits".into(),
        limits: realm_limits(decided),
        seed: 1,
        clock_step_us: 1,
        time_zone: "UTC".to_owned(),
        facts: pijs_runtime::facts::facts(environment),
    };
    let process = pijs_runtime::isolation::process_options(environment, decided.max_turn_ms);
    let modules = [Compiler::new(environment).host_modules()?];
    let (realm, _) = ProcessRealm::open(&options, &modules, Now::default(), &mut Nobody, process)
        .map_err(|error| UserError::failed(error.to_string()))?;
    let sealed = realm.sealed();
    let standing =
        realm.restrictions().map_err(|error| UserError::failed(format!("cannot look at a worker: {error}")))?;
    let rows = [
        ("process", json!("a worker of its own")),
        ("files", json!(sealed.landlock)),
        // Landlock also denies programs of extensions pi's own files.
        ("program_files", json!(if json!(sealed.landlock) == "none" { "open" } else { "pi's own are closed" })),
        ("system_calls", json!(if standing.filters_calls { "filtered" } else { "open" })),
        ("open_files", json!(standing.open_files)),
        ("environment_bytes", json!(standing.environment_bytes)),
        ("address_space_bytes", json!(standing.address_space_bytes)),
        ("processes", json!(standing.processes)),
        ("file_bytes", json!(standing.file_bytes)),
        ("out_of_memory_score", json!(standing.out_of_memory_score)),
    ];
    Ok(rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

#[cfg(not(target_os = "linux"))]
fn walls(_: &Environment, _: &UserDecisions) -> Result<Map<String, Value>> {
    Ok(Map::from_iter([("process".to_owned(), json!("none: extensions run inside pi on this system"))]))
}
