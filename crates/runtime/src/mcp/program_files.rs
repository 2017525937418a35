//! Computes digests of a server's program files for pins.

use crate::environment::Environment;
use pijs_connectors::exec;
use pijs_mcp::pins::ToolDigests;
use pijs_mcp::session_port::ProgramStart;
use pijs_packages::Dirs;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Maximum size of a file that is hashed, in bytes. A larger file is identified by its stamp alone.
const LARGEST: u64 = 1 << 30;

/// Resolves program paths in the same way as starting a server does.
pub(super) struct ProgramFiles {
    dirs: Dirs,
    variables: BTreeMap<String, String>,
}

impl ProgramFiles {
    pub(super) fn new(environment: &Environment) -> Self {
        Self { dirs: environment.dirs.clone(), variables: environment.variables.clone() }
    }

    /// Returns digests of the program and of the scripts among its arguments, with their stamps.
    pub(super) fn digests(&self, start: &ProgramStart, known: &ToolDigests) -> Result<ToolDigests, String> {
        let ProgramStart { command, args, env, cwd, bound } = start;
        let folder = cwd.as_ref().map_or_else(|| self.dirs.cwd.clone(), |cwd| self.dirs.cwd.join(cwd));
        let named = exec::NamedCommand { command, args, env };
        let mut files = exec::code_files(&named, &folder, [&self.dirs.cwd, &self.dirs.home]);
        if !command.contains('/') {
            files.extend(exec::locate(command, &folder, &self.variables, &[]));
        }
        let mut digests = ToolDigests::new();
        for file in files {
            // Has no digest until the file exists; then it is new.
            let Ok(real) = file.canonicalize() else { continue };
            let is_bound = bound.as_ref().is_some_and(|bound| real.starts_with(bound));
            let Some(found) = real.metadata().ok().filter(Metadata::is_file) else { continue };
            if !is_bound && is_code(&real, &found) && !is_out_of_reach(&real) {
                let name = real.to_string_lossy().into_owned();
                let digest = digest(&real, &found, known.get(&name));
                digests.insert(name, digest.map_err(|error| format!("{}: {error}", real.display()))?);
            }
        }
        Ok(digests)
    }
}

/// Returns whether a file is a program or a script. Other arguments are data, which servers change themselves.
fn is_code(file: &Path, found: &Metadata) -> bool {
    const ENDINGS: &[&str] = &[
        "bash", "cjs", "cts", "exs", "jar", "jl", "js", "lua", "mjs", "mts", "php", "pl", "ps1", "py", "pyc", "pyz",
        "r", "rb", "sh", "ts", "wasm",
    ];
    let ending = file.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase);
    let is_named_so = ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str()));
    let begins_so = || {
        let mut head = [0; 2];
        File::open(file).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == *b"#!"
    };
    is_named_so || found.mode() & 0o111 != 0 || begins_so()
}

/// Returns whether this user can change neither a file nor a folder above it.
fn is_out_of_reach(file: &Path) -> bool {
    let is_fixed = |path: &Path| accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_err();
    file.ancestors().all(is_fixed)
}

/// Returns `sha256:HEX STAMP`. If the stamp of the known digest is that of the file, returns the known digest.
fn digest(file: &Path, found: &Metadata, known: Option<&String>) -> std::io::Result<String> {
    let stamp = format!(
        "{}:{}:{}:{}.{}:{}.{}",
        found.dev(),
        found.ino(),
        found.len(),
        found.mtime(),
        found.mtime_nsec(),
        found.ctime(),
        found.ctime_nsec()
    );
    if let Some(known) = known.filter(|known| known.split_once(' ').is_some_and(|(_, before)| before == stamp)) {
        return Ok(known.clone());
    }
    let mut hasher = Sha256::new();
    if found.len() > LARGEST {
        hasher.update(&stamp);
    } else {
        let mut reading = File::open(file)?.take(LARGEST);
        let mut buffer = vec![0; 1 << 20];
        loop {
            match reading.read(&mut buffer)? {
                0 => break,
                count => hasher.update(&buffer[..count]),
            }
        }
    }
    Ok(format!("sha256:{} {stamp}", hex::encode(hasher.finalize())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_hashed_and_not_read_again_under_the_same_stamp() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().canonicalize().expect("a path");
        std::fs::write(folder.join("server.sh"), "one").expect("written");
        std::fs::write(folder.join("data.json"), "{}").expect("written");
        let dirs = Dirs { agent_dir: "/agent".into(), cwd: folder.clone(), home: "/home".into() };
        let files = ProgramFiles { dirs, variables: BTreeMap::new() };
        let args = ["server.sh", "--root", ".", "--data", "data.json"].map(str::to_owned).to_vec();
        let start = ProgramStart { command: "/no/such/program".to_owned(), args, ..ProgramStart::default() };
        let first = files.digests(&start, &ToolDigests::new()).expect("read");
        let name = folder.join("server.sh").display().to_string();
        assert_eq!(first.keys().collect::<Vec<_>>(), [&name]);
        let (_, stamp) = first[&name].split_once(' ').expect("two words");
        // A known stamp skips reading the file again.
        let believed = ToolDigests::from([(name.clone(), format!("sha256:00 {stamp}"))]);
        assert_eq!(files.digests(&start, &believed).expect("read"), believed);
        std::fs::write(folder.join("server.sh"), "another").expect("written");
        let second = files.digests(&start, &first).expect("read");
        assert_ne!(first[&name].split(' ').next(), second[&name].split(' ').next());
        let bound = ProgramStart { bound: Some(folder), ..start };
        assert_eq!(files.digests(&bound, &first).expect("read"), ToolDigests::new());
    }
}
