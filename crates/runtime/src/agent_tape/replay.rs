//! Replays the agent's loop.
//!
//! The agent is that of any session, with stand-ins for its ports. The user's acts are repeated when the tape reaches them. The
//! replay ends at the first difference, at an act that cannot be replayed, at the end of the tape, or when the agent stops
//! although the tape continues.

use super::parts::{Parts, model_of_request};
use super::questions::{OF_EXTENSION, read};
use super::stage::{Stage, StagedAct};
use super::stand_ins::{NoSystem, TapedAmbient, TapedExtensions, TapedFrontEnd, TapedPorts, TapedRules, TapedState};
use super::stop::{ReplayStop, StopReason};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use pijs_agent::settings::Settings;
use pijs_agent::{Agent, AgentControl, AgentOptions, DeliverAs, InputSource, NavigateOptions, StateSink};
use pijs_connectors::fs::FsConnector;
use pijs_connectors::ports::{SessionCall, SessionOp, SessionPort};
use pijs_connectors::system::OsFileSystem;
use pijs_environment::{Ambient, SystemTimer, Timer, Wait};
use pijs_hostcall::{Caller, CancelToken, Profile};
use pijs_llm::message::Content;
use pijs_llm::models::{Credentials, open_http};
use pijs_llm::provider::script::Script;
use pijs_llm::provider::{Model, Provider, ProviderOptions, UnopenedModel};
use pijs_session_store::SessionOptions;
use pijs_tape::{AgentDivergence, AgentRecord};
use serde::Serialize;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Number of executor turns without progress after which the replay polls less often.
const BUSY_POLLS: u32 = 2_000;

/// Number of polls without progress, one per millisecond, after which the agent counts as stuck.
const IDLE_POLLS: u32 = 2_000;

/// Operations of extensions that the agent carries out like an act of the user. They are skipped, because the tape records that
/// act as well.
const SERVED: [SessionOp; 5] =
    [SessionOp::NewSession, SessionOp::StartSession, SessionOp::Fork, SessionOp::SwitchSession, SessionOp::Reload];

/// API key of every provider: a replay sends no request.
const NO_KEY: &str = "replay";

/// Result of replaying the agent's loop.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct AgentOutcome {
    /// Number of records about the agent.
    pub records: u64,
    /// Number of requests to models.
    pub requests: u64,
    /// Number of tool calls.
    pub tool_calls: u64,
    /// Number of entries that were added to the session.
    pub entries: u64,
    /// First difference between tape and replay, where the replay ended; `None` if there is none.
    pub divergence: Option<AgentDivergence>,
    /// Act that cannot be repeated, before which the replay ended.
    pub stopped_at: Option<ReplayStop>,
}

/// Replays the agent's loop of a tape; a tape that is not `complete` is replayed up to its end. Returns `None` if the tape has no
/// records of the agent, because an older version recorded it or it is a part of another tape.
///
/// # Errors
///
/// Fails if the parts of the agent cannot be read.
pub async fn replay_agent(records: Vec<(u64, AgentRecord)>, complete: bool) -> Result<Option<AgentOutcome>, String> {
    let mut outcome = count(&records);
    let mut records = records.into_iter();
    let Some((record, AgentRecord::Begin { parts })) = records.next() else { return Ok(None) };
    let parts = Parts::read(parts)?;
    if parts.lacks_rules() {
        outcome.stopped_at = Some(ReplayStop { record, act: "begin".to_owned(), reason: StopReason::NoRules });
        return Ok(Some(outcome));
    }
    let records: Vec<_> = records.collect();
    let models = models(&parts, &records);
    let stage = Stage::new(records, complete);
    let agent = make(&parts, models, &stage);
    let played = play(&agent, &stage);
    tokio::pin!(played);
    let progress = SystemTimer::new();
    // A task that waits for input never ends once the replay is over, so the tasks are not awaited.
    tokio::select! {
        biased;
        () = &mut played => {}
        () = watch(&stage, &progress) => {}
    }
    (outcome.divergence, outcome.stopped_at) = stage.end();
    Ok(Some(outcome))
}

fn count(records: &[(u64, AgentRecord)]) -> AgentOutcome {
    let mut outcome = AgentOutcome { records: records.len() as u64, ..AgentOutcome::default() };
    for (_, record) in records {
        match record {
            AgentRecord::Ask { port, .. } if port == "request" => outcome.requests += 1,
            AgentRecord::Ask { port, .. } if port == "tool" => outcome.tool_calls += 1,
            AgentRecord::Shown { to, value } if to == "entries" => {
                let append = value.get("append");
                let items = append.and_then(|append| append.get("items")).and_then(Value::as_u64);
                let listed = || append.and_then(Value::as_array).map_or(0, |append| append.len() as u64);
                outcome.entries += items.unwrap_or_else(listed);
            }
            _ => {}
        }
    }
    outcome
}

/// Returns the models of a tape: the initial one, those of later requests, and those that the user could switch to.
fn models(parts: &Parts, records: &[(u64, AgentRecord)]) -> Vec<Model> {
    let mut models: Vec<Model> = parts.model().into_iter().collect();
    models.extend(parts.scope().into_iter().map(|chosen| chosen.model));
    let mut names = BTreeSet::new();
    for (_, record) in records {
        match record {
            AgentRecord::Act { act, value } if act == "set_model" || act == "cycle_model" => {
                models.extend(Model::from_value(value));
            }
            AgentRecord::Act { act, value } if act == "session set_model" || act == "session ask_model" => {
                models.extend(value.pointer("/params/model").and_then(Model::from_value));
            }
            AgentRecord::Ask { port, value, .. } if port == "request" => names.extend(model_of_request(value)),
            _ => {}
        }
    }
    for (provider, id) in names {
        if !models.iter().any(|model| model.provider == provider && model.id == id) {
            models.push(Model::new(provider, id, ""));
        }
    }
    models
}

/// Creates a provider that builds requests as it did in the recording. No request is sent.
fn opened(model: &Model, ambient: &Ambient) -> Arc<dyn Provider> {
    if model.provider == "script"
        && let Ok(script) = Script::parse(&model.id, "", ambient.clone())
    {
        return Arc::new(script);
    }
    let credentials = Credentials { key: Some(NO_KEY.to_owned()), ..Credentials::default() };
    open_http(model.clone(), credentials, &ProviderOptions::default(), ambient)
        .unwrap_or_else(|_| Arc::new(UnopenedModel::new(model.clone())))
}

fn make(parts: &Parts, models: Vec<Model>, stage: &Arc<Stage>) -> Agent {
    let ambient = TapedAmbient::of(stage);
    let sessions = SessionOptions { is_written: false, ..ambient.clone().into() };
    let session = parts.session(sessions.clone());
    let state = Arc::new(TapedState { stage: Arc::clone(stage), begun: AtomicBool::new(false) });
    let control = AgentControl::new(session, Arc::clone(&state) as Arc<dyn StateSink>, ambient.clone());
    let files = Arc::new(FsConnector::new(Arc::new(OsFileSystem::new())));
    let mut options = AgentOptions::new(parts.cwd(), Arc::new(NoSystem), files, ambient.clone());
    parts.fill(&mut options);
    let (taped, resources) = (Arc::clone(stage), RefCell::new(parts.resources()));
    options.observer = Some(Rc::new(TapedPorts { stage: taped, resources, sessions }));
    options.rules = parts.native_rules(Box::new(TapedRules(Arc::clone(stage))));
    let unseen = Ambient::system();
    options.provider_ambient = Some(unseen.clone());
    let first = models.first().cloned().unwrap_or_else(Model::unknown);
    let extensions = Rc::new(TapedExtensions { stage: Arc::clone(stage), profile: parts.profile() });
    let front_end = Box::new(TapedFrontEnd(Arc::clone(stage)));
    let acting = control.clone();
    let agent = Agent::new(options, extensions, opened(&first, &unseen), control, front_end);
    for model in models.iter().skip(1) {
        agent.add_model(opened(model, &unseen));
    }
    let stopping = Arc::downgrade(stage);
    stage.set_of_extension(move |act| {
        let op = act.name.strip_prefix(OF_EXTENSION).unwrap_or_default();
        match SessionOp::ALL.iter().copied().find(|known| known.as_str() == op) {
            Some(op) if SERVED.contains(&op) => {}
            Some(op) => act_of_extension(&acting, op, &act.value),
            None => {
                if let Some(stage) = stopping.upgrade() {
                    stage.stop_at(act, StopReason::Unknown);
                }
            }
        }
    });
    state.begun.store(true, Ordering::Relaxed);
    agent
}

/// Repeats a call of an extension. The answer is discarded: the realm that received it is replayed separately.
fn act_of_extension(control: &AgentControl, op: SessionOp, value: &Value) {
    let member = |name: &str| value.get(name).cloned().unwrap_or_default();
    let extension: String = read(member("extension"));
    let caller = Caller::new(Arc::new(Profile::new(extension.as_str())));
    let call = SessionCall { op, params: read(member("params")) };
    if member("form") == "sync" {
        let _ = SessionPort::call_sync(control, &caller, call);
    } else {
        let answer = SessionPort::call(control, &caller, call, CancelToken::new());
        tokio::task::spawn_local(answer.map(drop));
    }
}

/// Repeats the user's acts until the tape ends.
async fn play(agent: &Agent, stage: &Arc<Stage>) {
    let acting = async {
        let mut running = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                // A started act runs as far as it can before the next act starts.
                Some(()) = running.next(), if !running.is_empty() => {}
                act = std::future::poll_fn(|cx| stage.poll_act(cx)) => running.push(perform(agent, stage, act)),
            }
        }
    };
    agent.attend(acting).await
}

async fn perform(agent: &Agent, stage: &Arc<Stage>, act: StagedAct) {
    let value = &act.value;
    let member = |name: &str| value.get(name).cloned().unwrap_or_default();
    let content = || read::<Content>(member("content"));
    let source = || serde_json::from_value(member("source")).unwrap_or(InputSource::Interactive);
    let deliver_as = || serde_json::from_value::<Option<DeliverAs>>(member("deliverAs")).ok().flatten();
    // The results were shown to the user; the tape records their effects.
    match act.name.as_str() {
        "start" => drop(agent.start(value.as_str().unwrap_or_default()).await),
        "shutdown" => agent.shutdown(value.as_str().unwrap_or_default()).await,
        "prompt" => drop(agent.prompt_with(content(), source(), deliver_as()).await),
        "queue" => {
            let how = deliver_as().unwrap_or(DeliverAs::Steer);
            drop(agent.queue_input(content(), source(), how).await);
        }
        "clear_waiting" => drop(agent.control().clear_waiting()),
        "set_thinking" => drop(agent.control().set_thinking(value.as_str().unwrap_or_default())),
        "set_session_name" => drop(agent.control().set_session_name(value.as_str().unwrap_or_default())),
        "compact" => drop(agent.compact(value.as_str()).await),
        "abort" => agent.control().abort(),
        "abort_retry" => agent.abort_retry(),
        // A tape of an older version has no arguments for these acts.
        "bash" | "navigate_tree" | "set_settings" | "set_model" | "cycle_model" | "new_session" | "start_session"
        | "fork" | "switch_session" | "reload"
            if !value.is_object() =>
        {
            stage.stop_at(&act, StopReason::NoArguments);
        }
        "bash" => {
            let id = Some(member("id")).filter(|id| !id.is_null());
            let (command, exclude) = (read::<String>(member("command")), member("exclude").as_bool());
            drop(
                agent.user_bash_as(id.as_ref(), &command, exclude, Default::default(), CancellationToken::new()).await,
            );
        }
        "navigate_tree" => {
            let options = read::<NavigateOptions>(member("options"));
            drop(agent.navigate_tree(&read::<String>(member("target")), options).await);
        }
        "set_settings" => {
            let provider = agent.settings().provider;
            agent.set_settings(Settings { provider, ..read(value.clone()) });
        }
        "set_model" | "cycle_model" => match Model::from_value(value) {
            Some(model) if act.name == "cycle_model" => drop(agent.cycle_to(&model).await),
            Some(model) => drop(agent.set_model(&model).await),
            None => stage.stop_at(&act, StopReason::NoArguments),
        },
        "new_session" => {
            let hold = member("hold").as_bool().unwrap_or_default();
            drop(agent.new_session(read(member("parent")), hold).await);
        }
        "fork" => {
            let at = member("at").as_bool().unwrap_or_default();
            drop(agent.fork(&read::<String>(member("entry")), at).await);
        }
        "switch_session" => drop(agent.switch_session(&read::<PathBuf>(member("path"))).await),
        "start_session" => drop(agent.start_deferred().await),
        "reload" => drop(agent.reload().await),
        _ => stage.stop_at(&act, StopReason::Unknown),
    }
}

/// Returns when the replay is over, or when the agent is stuck.
async fn watch(stage: &Stage, timer: &SystemTimer) {
    let (mut seen, mut polls) = (stage.happened(), 0);
    loop {
        if polls < BUSY_POLLS {
            tokio::task::yield_now().await;
        } else {
            timer.sleep(Wait::Idle, Duration::from_millis(1)).await;
        }
        let happened = stage.happened();
        polls = if happened == seen { polls + 1 } else { 0 };
        seen = happened;
        // A replay that is over waits a moment, in case the agent does more than the recorded one did.
        if stage.is_over() && (polls > BUSY_POLLS / 10 || stage.end().0.is_some()) {
            return;
        }
        if polls > BUSY_POLLS + IDLE_POLLS {
            return stage.stuck();
        }
    }
}
