//! The stdio transport: starts, writes to and reads from a server's program by `exec` hostcalls, so that it runs under the
//! supervisor and ends with all its descendants.

use crate::calls::{Calls, Tail, bytes_of, object};
use crate::close_reason::CloseReason;
use crate::flow::{Flow, MAX_MESSAGE_BYTES};
use pijs_protocol::HostcallError;
use rmcp::RoleClient;
use rmcp::transport::async_rw::AsyncRwTransport;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Maximum number of bytes in flight in each direction.
const PIPE: usize = 256 << 10;

pub(crate) type StdioTransport = AsyncRwTransport<RoleClient, ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;

/// A running program. Dropping this value ends the program.
pub(crate) struct Program {
    /// Latest output of the program on standard error.
    pub(crate) stderr: Tail,
    _stop: DropGuard,
}

/// The program to start.
pub(crate) struct Start<'a> {
    pub(crate) command: &'a str,
    pub(crate) args: &'a [String],
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: Option<&'a str>,
}

/// Starts a program. Prompts for consent if no grant covers it.
pub(crate) async fn start(
    calls: &Calls,
    start: Start<'_>,
    why: &CloseReason,
) -> Result<(StdioTransport, Program), HostcallError> {
    let Start { command, args, env, cwd } = start;
    let env = if env.is_empty() { Value::Null } else { json!(env) };
    let params = object([
        ("op", json!("spawn")),
        ("command", json!(command)),
        ("args", json!(args)),
        ("env", env),
        ("cwd", json!(cwd)),
        ("stdin", json!("pipe")),
    ]);
    let started = calls.call("exec", params, Vec::new()).await?;
    if let Some(message) = started.output.pointer("/error/message").and_then(Value::as_str) {
        return Err(HostcallError::io("ENOENT", "spawn", format!("it cannot be started: {message}")));
    }
    let pid = started.output["pid"].clone();
    let (ours, theirs) = tokio::io::duplex(PIPE);
    let (from_client, to_client) = tokio::io::split(theirs);
    let stderr = Tail::default();
    let flow = Arc::new(Mutex::new(Flow::default()));
    let stop = CancellationToken::new();
    let reading = read(calls.clone(), pid.clone(), to_client, (Arc::clone(&flow), stderr.clone(), why.clone()));
    let stopped = stop.clone();
    let ends = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = reading => {}
            // Dropping the `wait` call ends the program.
            () = stopped.cancelled() => {}
        }
        ends.cancel();
    });
    let writing = write(calls.clone(), pid, from_client, flow);
    let stopped = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = writing => {}
            () = stopped.cancelled() => {}
        }
    });
    let (read, write) = tokio::io::split(ours);
    let transport = AsyncRwTransport::new_client(read, write).with_max_line_length(MAX_MESSAGE_BYTES);
    Ok((transport, Program { stderr, _stop: stop.drop_guard() }))
}

/// Forwards the program's output to the client, until the program ends or exceeds a limit.
async fn read(
    calls: Calls,
    pid: Value,
    mut to_client: WriteHalf<DuplexStream>,
    (flow, stderr, why): (Arc<Mutex<Flow>>, Tail, CloseReason),
) {
    let waiting = calls.stream("exec", json!({"op": "wait", "pid": pid}), Vec::new());
    let Ok(mut output) = waiting else { return };
    while let Some((mut result, held)) = output.results.recv().await {
        if let Some(bytes) = bytes_of(&mut result, "stderr") {
            stderr.add(&bytes);
        }
        if let Some(bytes) = bytes_of(&mut result, "stdout") {
            let taken = flow.lock().unwrap_or_else(PoisonError::into_inner).take(&bytes);
            if let Err(violation) = taken {
                why.set(violation.to_string());
                break;
            }
            if to_client.write_all(&bytes).await.is_err() {
                break;
            }
        }
        drop(held);
        if result.chunk.as_ref().is_none_or(|chunk| chunk.is_last) {
            let code = result.output.get("code").and_then(Value::as_i64);
            let signal = result.output.get("signal").and_then(Value::as_str);
            let how = match (code, signal) {
                (Some(code), _) => format!("its program ended with code {code}"),
                (None, Some(signal)) => format!("its program was ended by {signal}"),
                (None, None) => "its program ended".to_owned(),
            };
            let said = stderr.last_lines();
            why.set(if said.is_empty() { how } else { format!("{how}: {said}") });
            break;
        }
    }
    let _ = to_client.shutdown().await;
}

/// Forwards the client's messages to the program.
async fn write(calls: Calls, pid: Value, mut from_client: ReadHalf<DuplexStream>, flow: Arc<Mutex<Flow>>) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = match from_client.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        flow.lock().unwrap_or_else(PoisonError::into_inner).reset();
        let params = json!({"op": "write", "pid": pid, "data": {"$bytes": 0}});
        if calls.call("exec", params, vec![buffer[..count].to_vec()]).await.is_err() {
            break;
        }
    }
    let _ = calls.call("exec", json!({"op": "end", "pid": pid}), Vec::new()).await;
}
