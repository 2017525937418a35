//! Runs a started program to its end: writes its input, collects its output, applies its limits.

use super::child::{Child, ProgramExit, TreeHandle};
use pijs_hostcall::{CancelToken, ChunkSink, Output};
use serde_json::json;
use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;

/// Maximum pause in the output after the program has exited. A process that it started may keep the pipe open.
const AFTER_EXIT: Duration = Duration::from_millis(250);

/// Maximum wait for a killed program to disappear after its grace period, so that a process that the system cannot end (blocked
/// on a broken disk) does not delay the result further.
const AFTER_KILL: Duration = Duration::from_secs(3);

/// How a program ended.
pub(super) struct ProgramOutcome {
    pub(super) exit: ProgramExit,
    /// Whether the host stopped the program, because of the deadline, a cancellation or too much output.
    pub(super) killed: bool,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    pub(super) truncated: bool,
    /// Controls the processes that the program left behind.
    pub(super) tree: TreeHandle,
}

/// Input and limits of a run.
pub(super) struct ProgramLimits {
    pub(super) input: Option<Vec<u8>>,
    pub(super) timeout: Option<Duration>,
    /// Maximum number of bytes of a stream; if there are more, the program is stopped.
    pub(super) max_buffer: Option<usize>,
    /// Number of bytes kept from the end of a stream if `max_buffer` is `None`.
    pub(super) kept_output: usize,
    pub(super) grace: Duration,
    /// Whether output is read until every process has closed the pipes; a streaming caller is notified of the program's exit
    /// before that. If `false`, output ends when nothing has arrived for [`AFTER_EXIT`] after the exit.
    pub(super) reads_to_the_end: bool,
}

/// Runs a started program to its end. Dropping the future stops the process tree.
///
/// This is one function, because the futures that it waits for borrow its locals.
pub(super) async fn run(
    child: Child,
    limits: ProgramLimits,
    cancel: &CancelToken,
    sink: Option<ChunkSink>,
) -> io::Result<ProgramOutcome> {
    let Child { stdin, stdout, stderr, mut ended, tree, .. } = child;
    let overflow = CancelToken::new();
    let read = AtomicUsize::new(0);
    let capture_options = |name| CaptureOptions {
        name,
        limit: limits.max_buffer.unwrap_or(limits.kept_output),
        strict: limits.max_buffer.is_some().then(|| overflow.clone()),
        sink: sink.clone(),
        read: &read,
    };
    let (mut kept_out, mut kept_err) = (StreamCapture::default(), StreamCapture::default());
    // Whether the program is being stopped.
    let mut killed = false;
    let exit = {
        let reading = async {
            // When both streams have data, standard output is read first, as in Node.
            let (out, err) = (
                capture(stdout, &mut kept_out, capture_options("stdout")),
                capture(stderr, &mut kept_err, capture_options("stderr")),
            );
            tokio::join!(biased; out, err);
        };
        let mut reading = std::pin::pin!(reading);
        let mut drained = false;
        let mut feeding = std::pin::pin!(feed(stdin, limits.input));
        let mut fed = false;
        let expiry = async {
            match limits.timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        let mut expiry = std::pin::pin!(expiry);
        let mut kill_deadline = std::pin::pin!(tokio::time::sleep(Duration::ZERO));
        let exit = loop {
            let was_killed = killed;
            tokio::select! {
                exit = &mut ended => break exit.ok(),
                () = &mut reading, if !drained => drained = true,
                () = &mut feeding, if !fed => fed = true,
                () = &mut expiry, if !killed => killed = true,
                () = cancel.cancelled(), if !killed => killed = true,
                () = overflow.cancelled(), if !killed => killed = true,
                () = &mut kill_deadline, if killed => break None,
            }
            if killed && !was_killed {
                tree.end();
                kill_deadline.as_mut().reset(tokio::time::Instant::now() + limits.grace + AFTER_KILL);
            }
        };
        // The closed pipe may have ended the program before the signal did.
        killed |= overflow.is_cancelled();
        if killed {
            // Processes that the program started may still be running.
            tree.end();
        }
        // A supervisor that ended without a message was killed, so the exit status of the program is unknown.
        let exit = exit.unwrap_or(ProgramExit { code: None, signal: Some(rustix::process::Signal::KILL.as_raw()) });
        while !drained {
            let before = read.load(Ordering::Relaxed);
            // On timeout, a process that the program started still has the pipes open.
            drained = tokio::time::timeout(AFTER_EXIT, &mut reading).await.is_ok();
            if drained || killed {
                break;
            }
            if limits.reads_to_the_end {
                if let Some(sink) = &sink
                    && sink.send(Output::new(json!({ "exit": exit.value() }))).is_err()
                {
                    // The receiver was dropped.
                    break;
                }
                tokio::select! {
                    () = &mut reading => {}
                    () = cancel.cancelled() => {}
                    () = &mut expiry => {}
                }
                break;
            }
            if read.load(Ordering::Relaxed) == before {
                break;
            }
        }
        exit
    };
    let truncated = kept_out.dropped || kept_err.dropped;
    Ok(ProgramOutcome { exit, killed, stdout: kept_out.bytes.into(), stderr: kept_err.bytes.into(), truncated, tree })
}

async fn feed(stdin: Option<PipeWriter>, input: Option<Vec<u8>>) {
    if let (Some(stdin), Some(input)) = (stdin, input)
        && let Ok(mut stdin) = sender(stdin)
    {
        // A program that does not read its input is not an error.
        let _ = stdin.write_all(&input).await;
    }
}

/// Converts the writing end of a pipe for asynchronous use. Must be called inside a tokio runtime.
pub(super) fn sender(pipe: PipeWriter) -> io::Result<pipe::Sender> {
    pipe::Sender::from_owned_fd(OwnedFd::from(pipe))
}

/// Captured output of a stream.
#[derive(Default)]
struct StreamCapture {
    bytes: VecDeque<u8>,
    dropped: bool,
}

struct CaptureOptions<'a> {
    name: &'static str,
    limit: usize,
    /// Cancelled when more than `limit` bytes have arrived, which stops the program.
    strict: Option<CancelToken>,
    sink: Option<ChunkSink>,
    /// Counts the reads of both streams.
    read: &'a AtomicUsize,
}

async fn capture(pipe: PipeReader, kept: &mut StreamCapture, options: CaptureOptions<'_>) {
    let Ok(mut stream) = pipe::Receiver::from_owned_fd(OwnedFd::from(pipe)) else { return };
    let mut step = vec![0; 64 << 10];
    loop {
        if let Some(sink) = &options.sink {
            sink.ready().await;
        }
        let read = match stream.read(&mut step).await {
            Ok(0) | Err(_) => return,
            Ok(read) => read,
        };
        options.read.fetch_add(1, Ordering::Relaxed);
        if let Some(sink) = &options.sink {
            if sink.send(Output::default().with_bytes(options.name, step[..read].to_vec())).is_err() {
                return;
            }
            continue;
        }
        kept.bytes.extend(&step[..read]);
        if let Some(over) = kept.bytes.len().checked_sub(options.limit).filter(|over| *over > 0) {
            kept.dropped = true;
            match &options.strict {
                Some(overflow) => {
                    kept.bytes.truncate(options.limit);
                    overflow.cancel();
                    return;
                }
                None => drop(kept.bytes.drain(..over)),
            }
        }
    }
}
