//! What the built-in tools work on: files and a shell.
//!
//! [`ToolSystem`] is the seam; [`OsToolSystem`] is the machine. This is the only file of the crate
//! that reads a project's files or starts a process.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use pijs_connectors::exec::{OwnShell, Started};
use pijs_environment::{Ambient, Wait};
use pijs_hostcall::places::ProgramView;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How long pipes are still read after the shell has ended, in case a child keeps them open.
const GRACE: Duration = Duration::from_millis(100);

/// How long the answer waits for a shell that was killed: one that the system itself cannot end (it waits for a
/// broken disk) does not hold it up.
const GONE: Duration = Duration::from_secs(3);

/// Names that are tried for a long output.
const MOST_NAMES: u32 = 100;

/// Files and a shell.
pub trait ToolSystem: Send + Sync {
    /// All of a file.
    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<Vec<u8>>>;
    /// Replaces or creates a file, and the directories above it.
    fn write<'a>(&'a self, path: &'a Path, bytes: Vec<u8>) -> BoxFuture<'a, io::Result<()>>;
    /// What is at a path, symbolic links followed.
    fn kind<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<Kind>>;
    /// What is in a directory, sorted by name; links are not followed.
    fn list<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<Vec<Listed>>>;
    /// Runs a command line and all it starts, until it ends or is stopped.
    fn shell(&self, shell: Shell) -> BoxFuture<'static, io::Result<ShellEnd>>;
    /// Waits between two looks at what a command prints.
    fn pause(&self, time: Duration) -> BoxFuture<'static, ()>;
    /// The home that `~` stands for, if it stands for one.
    fn home(&self) -> Option<&Path> {
        None
    }
    /// Keeps something for the person to look at; returns where.
    fn keep(&self, name: String, bytes: Vec<u8>) -> BoxFuture<'_, io::Result<PathBuf>>;
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A link, a device, a socket.
    Other,
}

/// One thing in a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Whether it is a regular file.
    pub is_file: bool,
}

/// A command line to run.
#[derive(Debug)]
pub struct Shell {
    /// For `bash -c`.
    pub command: String,
    /// Where.
    pub cwd: PathBuf,
    /// Variables beside those that every command line has; an empty one is taken away.
    pub variables: BTreeMap<String, String>,
    /// After how long it is killed.
    pub timeout: Option<Duration>,
    /// Files that it is kept from; none for a command that no extension is behind.
    pub view: ProgramView,
    /// Kills it.
    pub cancel: CancellationToken,
    /// Takes what it prints, both streams in the order they arrive.
    pub output: mpsc::Sender<Vec<u8>>,
}

/// How a command line ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShellEnd {
    /// With this code, which after a signal is 128 and the signal; `None` when nobody knows.
    Exited(Option<i32>),
    /// Its time was up.
    TimedOut,
    /// The token was cancelled.
    Cancelled,
}

/// The machine.
#[derive(Clone)]
pub struct OsToolSystem {
    ambient: Ambient,
    temporary: PathBuf,
    programs: OwnShell,
    home: Option<PathBuf>,
}

impl OsToolSystem {
    /// `temporary` is where long outputs are kept, `programs` what command lines run in.
    pub fn new(ambient: Ambient, temporary: PathBuf, programs: OwnShell) -> Self {
        Self { ambient, temporary, programs, home: None }
    }

    /// Lets `~` stand for a folder.
    #[must_use]
    pub fn at_home(self, home: PathBuf) -> Self {
        Self { home: Some(home), ..self }
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

    fn kind<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<Kind>> {
        async move {
            let metadata = tokio::fs::metadata(path).await?;
            Ok(if metadata.is_dir() {
                Kind::Directory
            } else if metadata.is_file() {
                Kind::File
            } else {
                Kind::Other
            })
        }
        .boxed()
    }

    fn list<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, io::Result<Vec<Listed>>> {
        async move {
            let mut reader = tokio::fs::read_dir(path).await?;
            let mut listed = Vec::new();
            while let Some(item) = reader.next_entry().await? {
                let kind = item.file_type().await?;
                listed.push(Listed {
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

    fn shell(&self, shell: Shell) -> BoxFuture<'static, io::Result<ShellEnd>> {
        run_shell(shell, self.ambient.clone(), self.programs.clone()).boxed()
    }

    fn keep(&self, name: String, bytes: Vec<u8>) -> BoxFuture<'_, io::Result<PathBuf>> {
        async move {
            for path in names(&self.temporary, &name) {
                // The folder is everybody's and the name can be guessed: what is there already is not ours.
                let mut options = tokio::fs::OpenOptions::new();
                options.write(true).create_new(true);
                #[cfg(unix)]
                options.mode(0o600);
                let mut file = match options.open(&path).await {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                    opened => opened?,
                };
                file.write_all(&bytes).await?;
                file.flush().await?;
                return Ok(path);
            }
            Err(io::ErrorKind::AlreadyExists.into())
        }
        .boxed()
    }
}

/// `NAME.log`, then `NAME-2.log` and so on.
fn names(folder: &Path, name: &str) -> impl Iterator<Item = PathBuf> {
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, "log"));
    let numbered = (2..=MOST_NAMES).map(move |number| folder.join(format!("{stem}-{number}.{extension}")));
    std::iter::once(folder.join(name)).chain(numbered)
}

/// Runs a command line and sees to the end of it; when it is stopped, of all it started.
async fn run_shell(shell: Shell, ambient: Ambient, programs: OwnShell) -> io::Result<ShellEnd> {
    let Started { mut running, output } =
        programs.start(&shell.command, &shell.cwd, &shell.variables, shell.view).await?;
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
            code = running.wait() => break ShellEnd::Exited(code),
            () = &mut reading, if !read_all => read_all = true,
            () = &mut timeout => break ShellEnd::TimedOut,
            () = shell.cancel.cancelled() => break ShellEnd::Cancelled,
        }
    };
    let is_over = matches!(end, ShellEnd::Exited(_));
    if !is_over {
        running.end();
        tokio::select! {
            _ = running.wait() => {}
            () = ambient.timer.sleep(Wait::Tool, GONE) => {}
        }
    }
    if !read_all {
        tokio::select! {
            () = &mut reading => {}
            () = ambient.timer.sleep(Wait::Tool, GRACE) => {}
        }
    }
    if is_over {
        running.leave();
    }
    Ok(end)
}

async fn pump(mut from: impl AsyncRead + Unpin, to: mpsc::Sender<Vec<u8>>) {
    // As much as a pipe holds.
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if to.send(buffer[..count].to_vec()).await.is_err() {
            return;
        }
    }
}
