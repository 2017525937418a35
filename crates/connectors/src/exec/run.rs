//! One program from start to end.

use super::{ExecOptions, Spec};
use pijs_hostcall::{CancelToken, ChunkSink, Output};
use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessSession};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::VecDeque;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

/// How long output is still read after the program ended: something it started may hold the
/// pipe. pi waits as long.
const AFTER_EXIT: Duration = Duration::from_millis(100);

/// How a program ended.
pub(super) struct Ended {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<&'static str>,
    /// By us: deadline, cancellation or too much output.
    pub(super) killed: bool,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    pub(super) truncated: bool,
}

/// Kills the whole group when the call goes away.
struct Group {
    leader: Pid,
    ended: bool,
}

impl Group {
    fn signal(&self, signal: Signal) {
        // Gone already is as good as killed.
        let _ = kill_process_group(self.leader, signal);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.ended {
            self.signal(Signal::KILL);
        }
    }
}

/// Runs a program. `Err` when it could not be started.
pub(super) async fn run(
    spec: Spec,
    options: &ExecOptions,
    cancel: &CancelToken,
    sink: Option<ChunkSink>,
) -> io::Result<Ended> {
    let program = spec.program.ok_or(io::ErrorKind::NotFound)?;
    let mut command = Command::new(&program);
    command
        .arg0(&spec.command)
        .args(&spec.args)
        .env_clear()
        .envs(&spec.env)
        .current_dir(&spec.cwd)
        .stdin(if spec.input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut command = CommandWrap::from(command);
    command.wrap(ProcessSession);
    let mut child = command.spawn()?;
    let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let mut group = Group { leader: leader.ok_or_else(|| io::Error::other("a program without an id"))?, ended: false };

    let overflow = CancelToken::new();
    let limits = |name| Keep {
        name,
        limit: spec.max_buffer.unwrap_or(options.kept_output),
        strict: spec.max_buffer.is_some().then(|| overflow.clone()),
        sink: sink.clone(),
    };
    let (mut stdout, mut stderr) = (Kept::default(), Kept::default());
    let (out, err, stdin) = (child.stdout().take(), child.stderr().take(), child.stdin().take());
    let input = spec.input;
    let feed = async {
        if let (Some(mut stdin), Some(input)) = (stdin, input) {
            // A program that does not read its input is no failure of ours.
            let _ = stdin.write_all(&input).await;
        }
        std::future::pending::<()>().await;
    };
    // Whether the program is to end, and whether it was asked politely already.
    let (mut killed, mut asked) = (false, false);
    let status = {
        let reading = async {
            tokio::join!(keep(out, &mut stdout, limits("stdout")), keep(err, &mut stderr, limits("stderr")));
        };
        let mut reading = std::pin::pin!(reading);
        let mut drained = false;
        let mut feed = std::pin::pin!(feed);
        let expiry = async {
            match spec.timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        let mut expiry = std::pin::pin!(expiry);
        let mut grace = std::pin::pin!(tokio::time::sleep(options.grace));
        let status = loop {
            tokio::select! {
                status = wait(&mut child) => break status?,
                () = &mut reading, if !drained => drained = true,
                () = &mut feed => {}
                () = &mut expiry, if !killed => killed = true,
                () = cancel.cancelled(), if !killed => killed = true,
                () = overflow.cancelled(), if !killed => killed = true,
                () = &mut grace, if killed => {
                    group.signal(Signal::KILL);
                    grace.as_mut().reset(tokio::time::Instant::now() + options.grace);
                    continue;
                }
            }
            if killed && !asked {
                asked = true;
                group.signal(Signal::TERM);
                grace.as_mut().reset(tokio::time::Instant::now() + options.grace);
            }
        };
        // The pipe that closed on it may have ended the program before the signal did.
        killed |= overflow.is_cancelled();
        if killed {
            // Its children may have ignored the polite signal.
            group.signal(Signal::KILL);
        }
        group.ended = true;
        if !drained {
            // Elapsed means that something it started still holds the pipes.
            let _ = tokio::time::timeout(AFTER_EXIT, reading).await;
        }
        status
    };
    let (code, signal) = parts(status);
    let truncated = stdout.dropped || stderr.dropped;
    Ok(Ended { code, signal, killed, stdout: stdout.bytes.into(), stderr: stderr.bytes.into(), truncated })
}

async fn wait(child: &mut Box<dyn ChildWrapper>) -> io::Result<ExitStatus> {
    // The program itself, not its group: what it leaves running does not hold up the answer.
    child.inner_mut().wait().await
}

/// What is kept of a stream.
#[derive(Default)]
struct Kept {
    bytes: VecDeque<u8>,
    dropped: bool,
}

struct Keep {
    name: &'static str,
    limit: usize,
    /// Set when more than `limit` ends the program.
    strict: Option<CancelToken>,
    sink: Option<ChunkSink>,
}

async fn keep(stream: Option<impl AsyncRead + Unpin>, kept: &mut Kept, how: Keep) {
    let Some(mut stream) = stream else { return };
    let mut step = vec![0; 64 << 10];
    loop {
        let read = match stream.read(&mut step).await {
            Ok(0) | Err(_) => return,
            Ok(read) => read,
        };
        if let Some(sink) = &how.sink {
            if sink.send(Output::default().with_bytes(how.name, step[..read].to_vec())).is_err() {
                return;
            }
            continue;
        }
        kept.bytes.extend(&step[..read]);
        if let Some(over) = kept.bytes.len().checked_sub(how.limit).filter(|over| *over > 0) {
            kept.dropped = true;
            match &how.strict {
                Some(overflow) => {
                    kept.bytes.truncate(how.limit);
                    overflow.cancel();
                    return;
                }
                None => drop(kept.bytes.drain(..over)),
            }
        }
    }
}

fn parts(status: ExitStatus) -> (Option<i32>, Option<&'static str>) {
    use std::os::unix::process::ExitStatusExt as _;
    let signal = status.signal().map(|number| match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        _ => "SIGUNKNOWN",
    });
    (status.code(), signal)
}
