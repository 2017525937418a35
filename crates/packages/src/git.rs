//! Fetches packages from git repositories with the system's git.
//!
//! git only fetches one ref into an empty bare repository, lists one tree and prints blobs. It never checks anything out, so no
//! hook, filter, attribute or submodule of the repository takes effect, and no configuration of this machine or of the repository
//! is read. Names and sizes are checked by the code for archives; links that stay inside the package become copies ([`links`]).
//!
//! Supported transports are https, and ssh if the user wrote such a source. Plain http is allowed only to a literal loopback
//! address.
//!
//! A package is stored in `<root>/git/HOST/PATH`, and the lock file contains its commit.

mod links;

use crate::archive::{InstallLimits, Unpacked};
use crate::error::{InstallCode, PackageError, Result};
use crate::names::check;
use crate::source::printable;
use pijs_protocol::guard;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// Interval at which the size of a running fetch is measured.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum size of git's error output in bytes.
const MAX_ERROR_BYTES: u64 = 16 << 10;
/// Maximum length of a link's target in bytes, as on Linux.
const LONGEST_TARGET: u64 = 4096;
/// Name of the fetched ref.
const FETCHED: &str = "refs/pijs/fetched";

/// A repository and the requested ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitSource {
    /// URL as the user wrote it, with its `.git`, because not every server accepts both names.
    url: String,
    transport: Transport,
    host: String,
    path: String,
    reference: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Https,
    Ssh,
    /// Plain http, to a literal loopback address only.
    Http,
}

/// The git program and its environment.
#[derive(Debug, Clone, Default)]
pub struct GitOptions {
    /// Absolute path of git; `None` refuses git sources.
    pub program: Option<PathBuf>,
    /// `PATH` for git, which needs it for its helpers and ssh.
    pub path: OsString,
    /// `HOME` and `SSH_AUTH_SOCK`, for ssh only.
    pub ssh: Vec<(OsString, OsString)>,
}

/// Files of a fetched commit.
pub(crate) struct Checkout {
    pub(crate) commit: String,
    pub(crate) files: Unpacked,
}

impl GitSource {
    /// Reads `git:HOST/PATH[@REF]`, `git:URL`, `git+URL`, `https://...`, `ssh://...`, `git@HOST:PATH`, `github:OWNER/NAME`;
    /// returns `None` for any other text.
    ///
    /// # Errors
    ///
    /// Fails with `IN_SOURCE` for an unsupported transport, and for parts that git could parse as an option.
    pub fn parse(text: &str) -> Option<Result<Self>> {
        let prefixes =
            ["git:", "git+", "git@", "git://", "http://", "https://", "ssh://", "file://", "github:", "ext::", "fd::"];
        prefixes.iter().any(|prefix| text.starts_with(prefix)).then(|| Self::read(text))
    }

    fn read(text: &str) -> Result<Self> {
        let refuse = |why: &str| {
            PackageError::new(InstallCode::Source, printable(text), why.to_owned())
                .help("write git:HOST/OWNER/NAME or git:HOST/OWNER/NAME@TAG")
        };
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(refuse("a blank or control character in a git source"));
        }
        let spelled = text.strip_prefix("github:").map(|rest| format!("github.com/{rest}"));
        let rest = match &spelled {
            Some(rest) => rest.as_str(),
            None => text.strip_prefix("git:").filter(|rest| !rest.starts_with("//")).unwrap_or(text),
        };
        let rest = rest.strip_prefix("git+").unwrap_or(rest);
        let (transport, rest) = match rest.split_once("://") {
            Some(("https", rest)) => (Transport::Https, rest),
            Some(("ssh", rest)) => (Transport::Ssh, rest),
            Some(("http", rest)) => (Transport::Http, rest),
            Some(_) => return Err(refuse("only https and ssh are supported")),
            None if rest.contains("::") => return Err(refuse("only https and ssh are supported")),
            None if rest.starts_with("git@") => (Transport::Ssh, rest),
            None => (Transport::Https, rest),
        };
        let scp = rest.starts_with("git@") && !text.contains("://");
        let separator = if scp { ':' } else { '/' };
        let (authority, path) = rest.split_once(separator).ok_or_else(|| refuse("it has no path"))?;
        let (path, reference) = match path.split_once('#').or_else(|| path.rsplit_once('@')) {
            Some((path, reference)) => (path, Some(reference)),
            None => (path, None),
        };
        let (user, host) = match authority.split_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        if user.is_some_and(|user| user != "git" || transport != Transport::Ssh) {
            return Err(refuse("a source must not contain a user name or password"));
        }
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (host, None),
        };
        let name = name.to_ascii_lowercase();
        if !is_host(&name) || port.is_some_and(|port| port.parse::<u16>().is_err()) {
            return Err(refuse("the host is invalid"));
        }
        let loopback = name.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback());
        if transport == Transport::Http && !(loopback && port.is_some()) && guard!(GitTransport) {
            return Err(refuse("plain http is not supported").help("write https://"));
        }
        let written = path.trim_end_matches('/');
        let path = written.trim_end_matches(".git");
        if !path.split('/').all(is_part) && guard!(GitArguments) {
            return Err(refuse("the path of the repository is invalid"));
        }
        // The parts of the path become folders below the scope's folder.
        if let Some((code, why)) = path.split('/').find_map(|part| check(part).err()) {
            return Err(PackageError::new(code, printable(text), why));
        }
        if reference.is_some_and(|reference| !is_reference(reference)) && guard!(GitArguments) {
            return Err(refuse("the tag, branch or commit is invalid"));
        }
        let host = match port {
            Some(port) => format!("{name}:{port}"),
            None => name,
        };
        let scheme = match transport {
            Transport::Https => "https://",
            Transport::Ssh => "ssh://git@",
            Transport::Http => "http://",
        };
        Ok(Self {
            url: format!("{scheme}{host}/{written}"),
            transport,
            host,
            path: path.to_owned(),
            reference: reference.map(str::to_owned),
        })
    }

    /// Returns `git:HOST/PATH`, without the `.git` of the address, because both spellings name one package.
    pub fn identity(&self) -> String {
        format!("git:{}/{}", self.host, self.path)
    }

    /// Formats the source for settings.
    pub fn to_settings(&self) -> String {
        let reference = self.reference.as_ref().map(|reference| format!("@{reference}")).unwrap_or_default();
        match self.transport {
            Transport::Https => format!("git:{}{reference}", self.url.trim_start_matches("https://")),
            Transport::Ssh | Transport::Http => format!("git:{}{reference}", self.url),
        }
    }

    /// Returns whether another source names the same ref of the same repository.
    pub(crate) fn is_same_state(&self, other: &Self) -> bool {
        self.identity() == other.identity() && self.reference == other.reference
    }

    /// Returns whether the source names a tag, branch or commit, which must not move.
    pub fn is_pinned(&self) -> bool {
        self.reference.is_some()
    }

    /// Returns the package's folder relative to a scope's folder.
    pub(crate) fn place(&self) -> PathBuf {
        Path::new("git").join(self.host.replace(':', "+")).join(&self.path)
    }

    /// Returns a name for a package whose manifest has none.
    pub(crate) fn last_part(&self) -> String {
        self.path.rsplit('/').next().unwrap_or("package").to_ascii_lowercase()
    }

    pub(crate) fn at(&self, commit: &str) -> String {
        format!("git+{}#{commit}", self.url)
    }
}

fn is_host(name: &str) -> bool {
    let labels = name.split('.').all(|label| {
        !label.is_empty()
            && !label.starts_with('-')
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    });
    name.len() <= 253 && labels
}

fn is_part(part: &str) -> bool {
    !part.is_empty()
        && !part.starts_with(['-', '.'])
        && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~+".contains(&b))
}

/// Returns whether a text is a ref for git. Excludes the forms that git reads as something else.
fn is_reference(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 200
        && !text.contains("..")
        && !text.ends_with(".lock")
        && text.split('/').all(is_part)
}

impl GitOptions {
    fn program(&self) -> Result<&Path> {
        self.program.as_deref().ok_or_else(|| {
            PackageError::new(InstallCode::Source, "git", "there is no git on this machine")
                .help("install git, or install the package from npm")
        })
    }

    fn command(&self, source: &GitSource, repository: &Path) -> Result<Command> {
        let mut command = Command::new(self.program()?);
        command.env_clear().env("PATH", &self.path).env("LC_ALL", "C");
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_ASKPASS", "true").env("GIT_OPTIONAL_LOCKS", "0");
        let transport = match source.transport {
            Transport::Https => "protocol.https.allow=always",
            Transport::Http => "protocol.http.allow=always",
            Transport::Ssh => {
                command.envs(self.ssh.iter().map(|(name, value)| (name, value)));
                command.env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes");
                "protocol.ssh.allow=always"
            }
        };
        if source.transport != Transport::Ssh {
            command.env("HOME", repository);
        }
        command.arg(joined("--git-dir=", repository));
        for setting in [
            "protocol.allow=never",
            transport,
            "core.hooksPath=/dev/null",
            "core.fsmonitor=false",
            "core.symlinks=false",
            "core.attributesFile=/dev/null",
            "credential.helper=",
            "fetch.recurseSubmodules=false",
            "http.followRedirects=false",
            "http.lowSpeedLimit=1000",
            "http.lowSpeedTime=30",
            "gc.auto=0",
            "maintenance.auto=false",
            "core.askPass=",
            "core.pager=cat",
            "submodule.recurse=false",
        ] {
            command.arg("-c").arg(setting);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).process_group(0);
        Ok(command)
    }

    /// Fetches the requested ref, or `commit`, and reads its tree. The repository is in `folder` meanwhile: a process that can
    /// write there controls the programs that git runs and the address that git fetches from.
    pub(crate) async fn fetch(
        &self,
        source: &GitSource,
        commit: Option<&str>,
        limits: &InstallLimits,
        folder: &Path,
    ) -> Result<Checkout> {
        let repository = folder.join("repository");
        let mut init = self.command(source, &repository)?;
        init.args(["init", "--bare", "--quiet", "--template="]).arg(&repository);
        run(init, source, limits, folder).await?;

        let mut wanted: Vec<String> = commit.map(str::to_owned).into_iter().collect();
        match &source.reference {
            None => wanted.push("HEAD".to_owned()),
            Some(reference) => {
                wanted.push(format!("refs/tags/{reference}"));
                wanted.push(format!("refs/heads/{reference}"));
                wanted.push(reference.clone());
            }
        }
        let mut failure = None;
        for wanted in &wanted {
            let mut fetch = self.command(source, &repository)?;
            fetch.args(["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"]);
            // The dumb HTTP protocol of the loopback tests has no shallow fetch.
            if source.transport != Transport::Http {
                fetch.arg("--depth=1");
            }
            fetch.args(["--end-of-options", &source.url]).arg(format!("+{wanted}:{FETCHED}"));
            match run(fetch, source, limits, folder).await {
                Ok(_) => {
                    failure = None;
                    break;
                }
                Err(error) if error.code == InstallCode::Io => failure = Some(error),
                Err(error) => return Err(error),
            }
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        let mut commit = self.command(source, &repository)?;
        commit.args(["rev-parse", "--verify", "--end-of-options"]).arg(format!("{FETCHED}^{{commit}}"));
        let commit = String::from_utf8_lossy(&run(commit, source, limits, folder).await?).trim().to_owned();
        let mut list = self.command(source, &repository)?;
        list.args(["ls-tree", "-r", "-z", "--long", "--full-tree", &commit]);
        let list = run(list, source, limits, folder).await?;
        let entries = entries(source, &list, limits)?;
        let blobs = self.blobs(source, &repository, &entries, limits).await?;
        let files = files(entries, blobs, limits).map_err(|error| error.within(&source.identity()))?;
        Ok(Checkout { commit, files })
    }

    /// Returns the blobs in the order of the entries.
    async fn blobs(
        &self,
        source: &GitSource,
        repository: &Path,
        entries: &TreeListing,
        limits: &InstallLimits,
    ) -> Result<Vec<Vec<u8>>> {
        let broken = |why: &str| PackageError::new(InstallCode::Format, source.identity(), why.to_owned());
        let mut command = self.command(source, repository)?;
        command.args(["cat-file", "--batch"]).stdin(Stdio::piped());
        let mut child = spawn(&mut command)?;
        let mut input = child.stdin.take().expect("the stream is piped");
        let asked: String = entries.listed.iter().map(|entry| format!("{}\n", entry.object)).collect();
        let ask = async move {
            let _ = input.write_all(asked.as_bytes()).await;
        };
        let output = child.stdout.take().expect("the stream is piped");
        let most = entries.listed.iter().map(|entry| entry.size + 128).sum::<u64>();
        let mut all = Vec::new();
        let mut output = output.take(most);
        let read = output.read_to_end(&mut all);
        let both = async { tokio::join!(ask, read).1 };
        tokio::time::timeout(limits.total, both)
            .await
            .map_err(|_| PackageError::new(InstallCode::Timeout, source.identity(), "git did not answer in time"))?
            .map_err(|error| PackageError::io("read from git", repository, error))?;
        let mut rest = all.as_slice();
        let mut blobs = Vec::with_capacity(entries.listed.len());
        for entry in &entries.listed {
            let end = rest.iter().position(|byte| *byte == b'\n').ok_or_else(|| broken("git stopped in the middle"))?;
            let head = format!("{} blob {}", entry.object, entry.size);
            let size = usize::try_from(entry.size).map_err(|_| broken("a file that is too large"))?;
            if rest[..end] != *head.as_bytes() || rest.len() < end + 1 + size {
                return Err(broken("git answered with another object"));
            }
            blobs.push(rest[end + 1..end + 1 + size].to_vec());
            rest = rest.get(end + 2 + size..).unwrap_or_default();
        }
        Ok(blobs)
    }
}

fn joined(prefix: &str, path: &Path) -> OsString {
    let mut text = OsString::from(prefix);
    text.push(OsStr::new(path));
    text
}

/// Entries of a tree as `ls-tree` prints them.
struct TreeListing {
    listed: Vec<TreeEntry>,
    warnings: Vec<String>,
}

struct TreeEntry {
    /// Path in the repository.
    path: Vec<u8>,
    object: String,
    size: u64,
    is_link: bool,
}

/// Returns the files of a tree, with copies in place of links.
fn files(entries: TreeListing, blobs: Vec<Vec<u8>>, limits: &InstallLimits) -> Result<Unpacked> {
    let TreeListing { listed, mut warnings } = entries;
    let mut tree = links::GitTree::new(limits);
    for (entry, blob) in listed.iter().zip(&blobs) {
        if entry.is_link { tree.link(&entry.path, blob) } else { tree.file(&entry.path, blob) }
    }
    let (copies, remarks) = tree.copies()?;
    warnings.extend(remarks);
    let plain = listed.iter().zip(&blobs).filter(|(entry, _)| !entry.is_link);
    let plain = plain.map(|(entry, blob)| (entry.path.clone(), blob.clone()));
    let all = plain.chain(copies).map(|(path, bytes)| ([b"package/", path.as_slice()].concat(), bytes));
    Ok(Unpacked::from_files(all, limits)?.with_warnings(warnings))
}

fn entries(source: &GitSource, list: &[u8], limits: &InstallLimits) -> Result<TreeListing> {
    let refuse = |code, path: &[u8], why: &str| {
        let name = printable(&String::from_utf8_lossy(path));
        Err(PackageError::new(code, format!("{}: {name}", source.identity()), why.to_owned()))
    };
    let mut entries = TreeListing { listed: Vec::new(), warnings: Vec::new() };
    let mut bytes: u64 = 0;
    for record in list.split(|byte| *byte == 0).filter(|record| !record.is_empty()) {
        let Some(tab) = record.iter().position(|byte| *byte == b'\t') else {
            return refuse(InstallCode::Format, record, "git printed an invalid tree entry");
        };
        let (head, path) = (String::from_utf8_lossy(&record[..tab]).into_owned(), &record[tab + 1..]);
        let mut fields = head.split_ascii_whitespace();
        let (mode, object) = (fields.next().unwrap_or_default(), fields.nth(1).unwrap_or_default().to_owned());
        let size = fields.next().and_then(|size| size.parse().ok()).unwrap_or(0);
        match mode {
            "100644" | "100755" | "100664" => {}
            "120000" if guard!(GitLinks) => {
                if size > LONGEST_TARGET {
                    return refuse(InstallCode::Link, path, "a link to a path that is too long");
                }
            }
            "160000" => {
                let name = printable(&String::from_utf8_lossy(path));
                entries.warnings.push(format!("the submodule {name} was not fetched"));
                continue;
            }
            _ if !guard!(GitLinks) => {}
            _ => return refuse(InstallCode::Format, path, "neither file nor folder"),
        }
        bytes += size;
        if entries.listed.len() >= limits.entries || bytes > limits.unpacked as u64 {
            return refuse(InstallCode::Size, path, "more files or bytes than a package may have");
        }
        let is_link = mode == "120000" && guard!(GitLinks);
        entries.listed.push(TreeEntry { path: path.to_vec(), object, size, is_link });
    }
    Ok(entries)
}

fn spawn(command: &mut Command) -> Result<Child> {
    command.spawn().map_err(|error| {
        let program = PathBuf::from(command.as_std().get_program());
        PackageError::io("start it", &program, error)
    })
}

/// Runs git within limits of time and bytes and returns its output.
async fn run(mut command: Command, source: &GitSource, limits: &InstallLimits, folder: &Path) -> Result<Vec<u8>> {
    let mut child = spawn(&mut command)?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let most = limits.entries as u64 * 512;
    let reading = async { tokio::join!(read(out, most), read(err, MAX_ERROR_BYTES)) };
    let started = Instant::now();
    let watch = async {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            if started.elapsed() > limits.total {
                return PackageError::new(InstallCode::Timeout, source.identity(), "git did not end in time");
            }
            if size_of(folder) > (limits.compressed + limits.unpacked) as u64 {
                return PackageError::new(InstallCode::Size, source.identity(), "the repository is too large");
            }
        }
    };
    let (output, words) = tokio::select! {
        read = reading => read,
        refused = watch => {
            // Git's helpers are in its process group.
            if let Some(pid) = child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed())) {
                let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
            }
            let _ = child.wait().await;
            return Err(refused);
        }
    };
    let status = child.wait().await.map_err(|error| PackageError::io("wait for git", folder, error))?;
    if status.success() {
        return Ok(output);
    }
    let words = String::from_utf8_lossy(&words).into_owned();
    let last = words.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("git failed");
    Err(PackageError::new(InstallCode::Io, source.identity(), printable(last))
        .help("check the address, the ref, and that the repository is public"))
}

async fn read(from: Option<impl AsyncRead + Unpin>, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        let _ = from.take(most).read_to_end(&mut bytes).await;
    }
    bytes
}

/// Returns the number of bytes of all files below a folder.
fn size_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => size_of(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_sources_are_accepted() {
        for (text, identity, url, settings) in [
            ("git:github.com/o/n", "git:github.com/o/n", "https://github.com/o/n", "git:github.com/o/n"),
            (
                "git:GitHub.com/o/n.git@v1",
                "git:github.com/o/n",
                "https://github.com/o/n.git",
                "git:github.com/o/n.git@v1",
            ),
            (
                "git@example.org:o/n.git",
                "git:example.org/o/n",
                "ssh://git@example.org/o/n.git",
                "git:ssh://git@example.org/o/n.git",
            ),
            (
                "http://127.0.0.1:80/o/n.git/",
                "git:127.0.0.1:80/o/n",
                "http://127.0.0.1:80/o/n.git",
                "git:http://127.0.0.1:80/o/n.git",
            ),
            (
                "https://example.org/a/b/c#main",
                "git:example.org/a/b/c",
                "https://example.org/a/b/c",
                "git:example.org/a/b/c@main",
            ),
            (
                "git@github.com:o/n@v1.0",
                "git:github.com/o/n",
                "ssh://git@github.com/o/n",
                "git:ssh://git@github.com/o/n@v1.0",
            ),
            (
                "git:ssh://git@github.com/o/n",
                "git:github.com/o/n",
                "ssh://git@github.com/o/n",
                "git:ssh://git@github.com/o/n",
            ),
            ("github:o/n", "git:github.com/o/n", "https://github.com/o/n", "git:github.com/o/n"),
            (
                "http://127.0.0.1:80/o/n",
                "git:127.0.0.1:80/o/n",
                "http://127.0.0.1:80/o/n",
                "git:http://127.0.0.1:80/o/n",
            ),
        ] {
            let source =
                GitSource::parse(text).expect("a git source").unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(
                (source.identity().as_str(), source.url.as_str(), source.to_settings().as_str()),
                (identity, url, settings),
                "{text}"
            );
            let again =
                GitSource::parse(&source.to_settings()).expect("a git source").expect("a written source parses");
            assert_eq!(again, source);
        }
        assert!(GitSource::parse("npm:x").is_none() && GitSource::parse("./git").is_none());
    }

    #[test]
    fn invalid_sources_are_refused() {
        for text in [
            "git:--upload-pack=touch${IFS}x",
            "git:-c core.sshCommand=x",
            "git:github.com/o/n@--exec=x",
            "git:github.com/o/n@-x",
            "git:ext::sh -c x",
            "ext::sh",
            "fd::3/x",
            "file:///etc",
            "git://github.com/o/n",
            "git:git://github.com/o/n",
            "http://example.org/o/n",
            "http://127.0.0.1/o/n",
            "http://localhost:80/o/n",
            "https:///o/n",
            "https://github.com/o\nn",
            "https://user:pass@github.com/o/n",
            "git:github.com",
            "git:github.com/../n",
            "git:github.com/-o/n",
            "git:-h/o/n",
            "git:github.com/o/n@a..b",
            "git:github.com/o/n@@{-1}",
            "git:github.com/o/n@x.lock",
            "git+file:///x",
            "git:github.com//n",
        ] {
            let refused = GitSource::parse(text).expect("a git source").expect_err(text);
            assert_eq!(refused.code, InstallCode::Source, "{text}");
        }
    }
}
