//! Reads data around the session from disk: the git branch, and other sessions.

use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

/// Maximum number of sessions that are listed.
const MAX_SESSIONS: usize = 200;
/// Maximum number of bytes of a session that are read for its title.
const MAX_READ: u64 = 256 * 1024;
/// Maximum size in bytes of a pointer file of git.
const LONGEST_POINTER: u64 = 4096;

/// Returns the git branch of a folder: `detached` for a detached HEAD, `None` outside of a repository.
pub(super) fn branch(cwd: &Path) -> Option<String> {
    let head = cwd.ancestors().find_map(|folder| {
        let git = folder.join(".git");
        // In a worktree, `.git` is a file that contains the path of the folder.
        let place = match pointer(&git) {
            Some(text) => folder.join(text.strip_prefix("gitdir:")?.trim()),
            None => git,
        };
        pointer(&place.join("HEAD"))
    })?;
    let name = head.trim().strip_prefix("ref: refs/heads/").unwrap_or("detached");
    Some(pijs_terminal::line(&pijs_terminal::plain(name)))
}

/// Reads a short regular file. Reading a pipe or a device in its place could block the screen.
fn pointer(path: &Path) -> Option<String> {
    let metadata = std::fs::metadata(path).ok()?;
    let is_short = metadata.is_file() && metadata.len() <= LONGEST_POINTER;
    is_short.then(|| std::fs::read_to_string(path).ok())?
}

/// A session on disk.
pub(super) struct SessionListing {
    pub(super) file: PathBuf,
    /// Name, or first prompt.
    pub(super) title: String,
    /// Creation date.
    pub(super) date: String,
}

/// Returns the sessions of a folder, most recently changed first; equal times are ordered by name.
pub(super) fn sessions(folder: &Path) -> Vec<SessionListing> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            // Opening a pipe would block.
            let about = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
            let changed = about.modified().ok()?;
            (path.extension()? == "jsonl").then_some((changed, path))
        })
        .collect();
    files.sort();
    files.into_iter().rev().take(MAX_SESSIONS).filter_map(|(_, file)| title(file)).collect()
}

fn title(file: PathBuf) -> Option<SessionListing> {
    let reader = BufReader::new(std::io::Read::take(std::fs::File::open(&file).ok()?, MAX_READ));
    let (mut name, mut said, mut date) = (None, None, String::new());
    for line in reader.lines().map_while(Result::ok) {
        let Ok(value) = serde_json::from_str::<Value>(&line) else { continue };
        match value["type"].as_str() {
            Some("session") => date = value["timestamp"].as_str().unwrap_or_default().chars().take(16).collect(),
            Some("session_info") => name = value["name"].as_str().map(str::to_owned),
            Some("message") if said.is_none() && value["message"]["role"] == "user" => {
                said = Some(pijs_runtime::export::text_of(&value["message"]["content"]));
            }
            _ => {}
        }
    }
    let title = name.filter(|name| !name.is_empty()).or(said)?;
    Some(SessionListing { file, title: pijs_terminal::line(&title), date: date.replace('T', " ") })
}

/// Copies a session file into a folder, under the same name or, if that is taken, another one.
pub(super) fn import(file: &Path, folder: &Path) -> std::io::Result<PathBuf> {
    if !std::fs::metadata(file)?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let mut source = BufReader::new(std::fs::File::open(file)?);
    let mut first = Vec::new();
    std::io::Read::take(&mut source, MAX_READ).read_until(b'\n', &mut first)?;
    let header: Value = serde_json::from_slice(&first).unwrap_or_default();
    if header["type"] != "session" {
        return Err(std::io::Error::other("it is not a session: its first line is not a header"));
    }
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    std::fs::create_dir_all(folder)?;
    for number in 1..MAX_SESSIONS {
        let number = if number == 1 { String::new() } else { format!("-{number}") };
        let copy = folder.join(format!("{stem}{number}.jsonl"));
        match std::fs::File::create_new(&copy) {
            Ok(mut made) => {
                made.write_all(&first)?;
                std::io::copy(&mut source, &mut made)?;
                return Ok(copy);
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(std::io::Error::other("too many files with this name exist"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_branch_is_the_one_that_is_checked_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
            std::fs::write(path, text).expect("a file");
        };
        write("inner/deep/x", "");
        write(".git/HEAD", "ref: refs/heads/feature/one\n");
        assert_eq!(branch(&folder.path().join("inner/deep")).as_deref(), Some("feature/one"));
        write(".git/HEAD", "1234567\n");
        assert_eq!(branch(folder.path()).as_deref(), Some("detached"));
        write("inner/.git", "gitdir: ../kept\n");
        write("kept/HEAD", "ref: refs/heads/two\n");
        assert_eq!(branch(&folder.path().join("inner")).as_deref(), Some("two"));
    }
}
