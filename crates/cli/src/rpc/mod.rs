//! `pi --mode rpc`: a session that a program controls, in pi's protocol.
//!
//! ```text
//! stdin   {"id": "1", "type": "prompt", "message": "..."}          commands
//!         {"type": "extension_ui_response", "id": "...", ...}      answers to dialogs
//! stdout  {"id": "1", "type": "response", "command": "prompt", "success": true}
//!         {"type": "message_update", ...}                          session events
//!         {"type": "extension_ui_request", "id": "...", ...}       output and dialogs of extensions
//! ```
//!
//! Records are JSON objects on lines that end with LF. Commands run concurrently, so responses are matched by id. The end of
//! stdin ends the session once earlier commands are answered, unless an answer requires waiting; a signal ends the session at
//! once. An unsupported command gets an error response.

mod changes;
mod commands;
mod page;
mod stats;
mod ui;
mod wire;

use crate::args::{ExtensionFlag, RunArgs};
use crate::output::{Json, clean, stderr};
use crate::session::assemble;
use commands::Commands;
use pijs_host::Host;
use pijs_runtime::Environment;
use pijs_runtime::shutdown_signals::{SHUTDOWN_GRACE, ShutdownSignals};
use pijs_runtime::{AgentSession, Interface, WIND_DOWN};
use pijs_runtime::{Result, UserError};
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::BufRead;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::{Notify, mpsc};
use ui::RpcUi;
use wire::{RpcEvents, RpcReports, Wire};

/// Upper bound of the number of steps of a command between two waits; more than any command has.
const STEPS: usize = 64;
/// Maximum size of an accepted record in bytes, enough for a prompt with images.
const LONGEST_RECORD: u64 = 64 << 20;

/// Serves a client on stdin and stdout until its input ends.
pub(crate) async fn serve(environment: &Environment, args: RunArgs, flags: Vec<ExtensionFlag>) -> Result<()> {
    let wire = Wire::new(Json(std::io::stdout()));
    let ui = RpcUi::new(wire.clone());
    // Reading starts early, because an extension may open a dialog while the session starts.
    let records = read(wire.clone(), ui.clone());
    let interface = Interface {
        mode: "rpc",
        has_ui: true,
        is_interactive: true,
        front_end: Box::new(RpcEvents(wire.clone())),
        ui: Some(Arc::new(ui.clone())),
        announces_dialogs: true,
        prompter: Some(Arc::new(ui)),
        observer: Some(Rc::new(RpcReports(wire.clone()))),
        wrap_state: None,
    };
    let session = Rc::new(assemble(environment, &args, flags, interface, None).await?);
    let host = session.host.clone();
    let result = host.run(run(Rc::clone(&session), wire, records)).await;
    session.finish();
    result
}

async fn run(session: Rc<AgentSession>, wire: Wire, mut records: mpsc::UnboundedReceiver<Value>) -> Result<()> {
    let broken = |error: pijs_agent::AgentError| UserError::failed(clean(&error.to_string()));
    // Installed before any state exists, because a signal must end the session like the end of the input.
    let mut stops = ShutdownSignals::listen(|| {})?;
    let is_stopped = Cell::new(false);
    let shutdown = Arc::new(Notify::new());
    session.agent.control().on_shutdown({
        let shutdown = Arc::clone(&shutdown);
        move || shutdown.notify_one()
    });
    tokio::select! {
        started = session.start() => started.map_err(broken)?,
        () = stops.next() => return Err(UserError::interrupted()),
    };
    session.look_up_models();
    let commands = Rc::new(Commands { session: Rc::clone(&session), wire, shells: RefCell::default() });
    let control = session.agent.control().clone();
    // Requests of extensions between commands are executed here.
    session
        .agent
        .attend(async {
            loop {
                let record = tokio::select! {
                    record = records.recv() => record,
                    () = stops.next() => {
                        is_stopped.set(true);
                        None
                    }
                    // As in pi `ctx.shutdown()` does not abort an active run, but `process.exit()` does.
                    () = shutdown.notified() => {
                        tokio::select! {
                            () = control.settled() => {}
                            _ = control.left() => {}
                        }
                        None
                    }
                };
                let Some(record) = record else { break };
                let commands = Rc::clone(&commands);
                tokio::task::spawn_local(async move { commands.handle(record).await });
            }
            if !is_stopped.get() {
                let _ = tokio::time::timeout(WIND_DOWN, come_to_rest(&session.host)).await;
            }
            control.abort();
            session.host.limit_waits_after_abort();
            let _ = tokio::time::timeout(WIND_DOWN, commands.idle()).await;
        })
        .await;
    session.keep_tools();
    // The client has disconnected; pending work of extensions may continue for a moment, but does not delay the exit further.
    let goodbye = async {
        session.agent.shutdown("quit").await;
        let _ = tokio::time::timeout(WIND_DOWN, session.host.quiet()).await;
    };
    if tokio::time::timeout(SHUTDOWN_GRACE, goodbye).await.is_err() {
        stderr(&format!("warning: the session did not end within {} s; pi exits without it", SHUTDOWN_GRACE.as_secs()));
    }
    if is_stopped.get() {
        return Err(UserError::interrupted());
    }
    session.agent.control().exit_code().map_or(Ok(()), UserError::left)
}

/// Waits until earlier commands have progressed as far as they can without waiting for a timer, a model or a program. So a client
/// that writes its commands and closes the input (`pi --mode rpc < commands`) gets the responses, as from pi, which handles a
/// line before it sees the end of the input.
async fn come_to_rest(host: &Host) {
    loop {
        // A woken command takes its next steps, through nested futures, and may then call an extension. Only such a call makes
        // the loop wait.
        for _ in 0..STEPS {
            tokio::task::yield_now().await;
        }
        if poll_once(pin!(host.quiet())).await {
            return;
        }
        host.quiet().await;
    }
}

/// Polls a future once; returns whether it is ready.
async fn poll_once(mut future: Pin<&mut impl Future<Output = ()>>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
}

/// Reads records on a separate thread, because waiting for a line must not block the session. Responses to dialogs are sent to
/// the waiting dialog, and other records to the channel, which is closed at the end of the input.
fn read(wire: Wire, ui: RpcUi) -> mpsc::UnboundedReceiver<Value> {
    let (sender, records) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            let mut limited = std::io::Read::take(&mut input, LONGEST_RECORD);
            match limited.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
            if line.last() != Some(&b'\n') && line.len() as u64 == LONGEST_RECORD {
                wire.respond(
                    None,
                    "parse",
                    Err(format!("Failed to parse command: longer than {LONGEST_RECORD} bytes")),
                );
                break;
            }
            let text = line.trim_ascii();
            if text.is_empty() {
                continue;
            }
            match serde_json::from_slice::<Value>(text) {
                Ok(record) if record["type"] == "extension_ui_response" => ui.respond(record),
                Ok(record) => {
                    if sender.send(record).is_err() {
                        break;
                    }
                }
                Err(error) => wire.respond(None, "parse", Err(format!("Failed to parse command: {error}"))),
            }
        }
        ui.close();
    });
    records
}
