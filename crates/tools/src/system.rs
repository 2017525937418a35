//! Provides the built-in tools with access to the operating system: files and a shell.
//!
//! Tools call the trait [`ToolSystem`]; [`OsToolSystem`] implements it for the machine. No other file of the crate reads project
//! files or starts processes.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use pijs_connectors::exec::{OwnShell, StartedCommand};
use pijs_durable::Disk;
use pijs_environment::{Ambient, Wait};
use pijs_hostcall::CommandLimits;
use pijs_hostcall::spilled::SpilledResults;
use pijs_protocol::guard;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Time during which pipes are still read after the shell has exited: a child process may keep them open.
const PIPE_GRACE: Duration = Duration::from_millis(100);

/// Time to wait for a killed shell to exit. A process in an uninterruptible system call (a failing disk) does not delay the
/// result further.
const KILL_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum number of file names that are tried for a stored output.
const MAX_NAMES: u32 = 100;

/// Maximum number of long outputs in the results folder; the oldest are removed.
const MAX_RESULTS: usize = 256;

/// Maximum total size in bytes of long outputs in the results folder.
const MAX_RESULT_BYTES: u64 = 512 << 20;

/// Access to files and a shell.
pub trait ToolSystem: Send + Sync {
    /// Reads a whole file.
    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<Vec<u8>>>;
    /// Replaces or creates a file, and the directories above it.
    fn write<'a>(&'a self, path: &'a Path, bytes: Vec<u8>) -> BoxFuture<'a, io::Result<()>>;
    /// Returns the kind of a file, following symbolic links.
    fn kind<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<FileKind>>;
    /// Lists a directory, sorted by name, without following links.
    fn list<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<Vec<DirectoryEntry>>>;
    /// Runs a command line until it ends or is cancelled, and kills its descendants.
    fn shell(&self, shell: Shell) -> BoxFuture<'static, io::Result<ShellOutcome>>;
    /// Waits between two polls of a command's output.
    fn pause(&self, time: Duration) -> BoxFuture<'static, ()>;
    /// Returns the home folder that `~` stands for.
    fn home(&self) -> Option<&Path> {
        None
    }
    /// Stores an output for the user and returns its path.
    fn keep(&self, name: String, bytes: Vec<u8>) -> BoxFuture<'_, io::Result<PathBuf>>;
}

/// Kinds of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A broken link, a device or a socket.
    Other,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirectoryEntry {
    /// The file name.
    pub name: String,
    /// Whether the path is a directory.
    pub is_directory: bool,
    /// Whether the path is a regular file.
    pub is_file: bool,
}

/// A command line with its environment.
#[derive(Debug)]
pub struct Shell {
    /// The argument of `bash -c`.
    pub command: String,
    /// The working directory.
    pub cwd: PathBuf,
    /// Environment variables in addition to the default ones; an empty value removes a variable.
    pub variables: BTreeMap<String, String>,
    /// Time after which the command is killed.
    pub timeout: Option<Duration>,
    /// Restrictions of the command; none if no extension influenced it.
    pub limits: CommandLimits,
    /// Kills the command.
    pub cancel: CancellationToken,
    /// Receives stdout and stderr in the order of arrival.
    pub output: mpsc::Sender<Vec<u8>>,
}

/// Outcomes of a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShellOutcome {
    /// The command exited with this code: 128 plus the signal if a signal ended it, `None` if the code is unknown.
    Exited(Option<i32>),
    /// The timeout expired.
    TimedOut,
    /// The token was cancelled.
    Cancelled,
}

/// Implements [`ToolSystem`] on the machine's operating system.
#[derive(Clone)]
pub struct OsToolSystem {
    ambient: Ambient,
    temporary: PathBuf,
    programs: OwnShell,
    home: Option<PathBuf>,
    results: Option<SpilledResults>,
}

impl OsToolSystem {
    /// Creates the system. Long outputs are stored in `temporary` unless a folder is set for them; `programs` is the shell that
    /// command lines run in.
    pub fn new(ambient: Ambient, temporary: PathBuf, programs: OwnShell) -> Self {
        Self { ambient, temporary, programs, home: None, results: None }
    }

    /// Sets the home folder for `~`.
    #[must_use]
    pub fn at_home(self, home: PathBuf) -> Self {
        Self { home: Some(home), ..self }
    }

    /// Sets a separate folder for long outputs.
    #[must_use]
    pub fn with_results(self, results: Option<SpilledResults>) -> Self {
        Self { results, ..self }
    }
}

impl ToolSystem for OsToolSystem {
    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<Vec<u8>>> {
        tokio::fs::read(path).boxed()
    }

    fn write<'a>(&'a self, path: &'a Path, bytes: Vec<u8>) -> BoxFuture<'a, io::Result<()>> {
        async move {
            if let Some(parent) = path.parent() {
                tokio::fs::create_dir_all(parent).await?;
            }
            tokio::fs::write(path, bytes).await
        }
        .boxed()
    }

    fn kind<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<FileKind>> {
        async move {
            let metadata = tokio::fs::metadata(path).await?;
            Ok(if metadata.is_dir() {
                FileKind::Directory
            } else if metadata.is_file() {
                FileKind::File
            } else {
                FileKind::Other
            })
        }
        .boxed()
    }

    fn list<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<Vec<DirectoryEntry>>> {
        async move {
            let mut reader = tokio::fs::read_dir(path).await?;
            let mut listed = Vec::new();
            while let Some(item) = reader.next_entry().await? {
                let kind = item.file_type().await?;
                listed.push(DirectoryEntry {
                    name: item.file_name().to_string_lossy().into_owned(),
                    is_directory: kind.is_dir(),
                    is_file: kind.is_file(),
                });
            }
            listed.sort();
            Ok(listed)
        }
        .boxed()
    }

    fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    fn pause(&self, time: Duration) -> BoxFuture<'static, ()> {
        let timer = self.ambient.timer.clone();
        async move { timer.sleep(Wait::Tool, time).await }.boxed()
    }

    fn shell(&self, shell: Shell) -> BoxFuture<'static, io::Result<ShellOutcome>> {
        run_shell(shell, self.ambient.clone(), self.programs.clone()).boxed()
    }

    fn keep(&self, name: String, bytes: Vec<u8>) -> BoxFuture<'_, io::Result<PathBuf>> {
        let results = self.results.clone().filter(|_| guard!(ToolSpilledResults));
        let temporary = self.temporary.clone();
        async move {
            let keeping = tokio::task::spawn_blocking(move || {
                let Some(results) = results else { return put_new(&temporary, &name, &bytes) };
                Disk::system().private_dir(results.folder())?;
                make_room(results.folder(), bytes.len() as u64)?;
                let path = put_new(results.folder(), &name, &bytes)?;
                results.note(path.clone());
                Ok(path)
            });
            keeping.await.map_err(io::Error::other)?
        }
        .boxed()
    }
}

/// Writes a new file under `name`, or under the name with a number if that is taken.
fn put_new(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    for path in names(folder, name) {
        // Every user can write to the temporary folder, and the name can be guessed, so an existing file is not trusted.
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            opened => opened?,
        };
        io::Write::write_all(&mut file, bytes)?;
        return Ok(path);
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Removes the oldest results until there is room for another one of `bytes` bytes.
fn make_room(folder: &Path, bytes: u64) -> io::Result<()> {
    let kept = std::fs::read_dir(folder)?.filter_map(|entry| {
        let entry = entry.ok()?;
        let found = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some((found.modified().unwrap_or(SystemTime::UNIX_EPOCH), entry.path(), found.len()))
    });
    let mut kept: Vec<(SystemTime, PathBuf, u64)> = kept.collect();
    kept.sort();
    let (mut count, mut total) = (kept.len(), kept.iter().map(|(_, _, length)| length).sum::<u64>());
    for (_, path, length) in kept {
        if count < MAX_RESULTS && total.saturating_add(bytes) <= MAX_RESULT_BYTES {
            break;
        }
        // Another process may have removed the file.
        let _ = std::fs::remove_file(path);
        (count, total) = (count - 1, total - length);
    }
    Ok(())
}

/// Yields `NAME.log`, then `NAME-2.log` and so on.
fn names(folder: &Path, name: &str) -> impl Iterator<Item = PathBuf> {
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, "log"));
    let numbered = (2..=MAX_NAMES).map(move |number| folder.join(format!("{stem}-{number}.{extension}")));
    std::iter::once(folder.join(name)).chain(numbered)
}

/// Runs a command line to its end. On cancellation or timeout, kills it with all its descendants.
async fn run_shell(shell: Shell, ambient: Ambient, programs: OwnShell) -> io::Result<ShellOutcome> {
    let StartedCommand { mut running, output } =
        programs.start(&shell.command, &shell.cwd, &shell.variables, shell.limits).await?;
    let reading = pump(output, shell.output);
    tokio::pin!(reading);
    let timeout = async {
        match shell.timeout {
            Some(limit) => ambient.timer.sleep(Wait::Tool, limit).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(timeout);
    let mut read_all = false;
    let end = loop {
        tokio::select! {
            code = running.wait() => break ShellOutcome::Exited(code),
            () = &mut reading, if !read_all => read_all = true,
            () = &mut timeout => break ShellOutcome::TimedOut,
            () = shell.cancel.cancelled() => break ShellOutcome::Cancelled,
        }
    };
    let is_over = matches!(end, ShellOutcome::Exited(_));
    if !is_over {
        running.end();
        tokio::select! {
            _ = running.wait() => {}
            () = ambient.timer.sleep(Wait::Tool, KILL_TIMEOUT) => {}
        }
    }
    if !read_all {
        tokio::select! {
            () = &mut reading => {}
            () = ambient.timer.sleep(Wait::Tool, PIPE_GRACE) => {}
        }
    }
    if is_over {
        running.leave();
    }
    Ok(end)
}

async fn pump(mut from: impl AsyncRead + Unpin, to: mpsc::Sender<Vec<u8>>) {
    // The capacity of a pipe on Linux.
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if to.send(buffer[..count].to_vec()).await.is_err() {
            return;
        }
    }
}
