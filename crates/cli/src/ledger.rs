//! `pi ext ledger verify`.

use crate::output::{clean, stderr, stdout};
use pijs_durable::{Disk, Open, VfsFile};
use pijs_hostcall::ledger::{Audit, BrokenLine, OpenCall, audit, parts};
use pijs_runtime::{Environment, Result, UserError, is_missing, ledger_folder};
use serde_json::{Value, json};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

/// `pi ext ledger verify [FILE]`: verifies one ledger, or all ledgers of this user.
pub(crate) fn verify(environment: &Environment, file: Option<&Path>, as_json: bool) -> Result<()> {
    let disk = Disk::system();
    let files = match file {
        Some(file) => vec![environment.dirs.cwd.join(file)],
        None => all(&disk, &ledger_folder(environment))?,
    };
    let mut documents = Vec::new();
    let mut broken = 0;
    for file in &files {
        let found = check(&disk, file)?;
        broken += u64::from(found.is_err());
        documents.push(document(file, &found));
        if !as_json {
            stdout(&clean(&sentence(file, &found)));
        }
    }
    if as_json {
        stdout(&json!({ "ledgers": documents }).to_string());
    } else if files.is_empty() {
        stderr("no ledgers; one is written when an extension calls its host");
    }
    match broken {
        0 => Ok(()),
        1 => Err(UserError::failed("a ledger failed verification")),
        many => Err(UserError::failed(format!("{many} ledgers failed verification"))),
    }
}

/// The error in a ledger, with the file.
struct Broken {
    file: PathBuf,
    line: BrokenLine,
}

fn check(disk: &Disk, file: &Path) -> Result<std::result::Result<Audit, Broken>> {
    let failed = |error: io::Error| UserError::failed(format!("{} cannot be read: {error}", file.display()));
    let mut files = parts(disk, file).map_err(failed)?;
    if disk.exists(file).map_err(failed)? {
        files.push(file.to_owned());
    }
    if files.is_empty() {
        return Err(UserError::failed(format!("{}: there is no such ledger", file.display())));
    }
    let readers = files.iter().map(|path| Ok(BufReader::new(Reader(disk.open(path, Open::Read)?))));
    Ok(audit(readers).map_err(|line| Broken { file: files.get(line.part).unwrap_or(&files[0]).clone(), line }))
}

/// Returns the newest files of all ledgers in a folder.
fn all(disk: &Disk, folder: &Path) -> Result<Vec<PathBuf>> {
    let names = match disk.list(folder) {
        Ok(names) => names,
        Err(error) if is_missing(&error) => return Ok(Vec::new()),
        Err(error) => return Err(UserError::failed(format!("{} cannot be read: {error}", folder.display()))),
    };
    let is_part = |stem: &str| stem.rsplit_once('.').is_some_and(|(_, number)| number.parse::<u64>().is_ok());
    let stems = names.iter().filter_map(|name| name.to_str()?.strip_suffix(".jsonl"));
    Ok(stems.filter(|stem| !is_part(stem)).map(|stem| folder.join(format!("{stem}.jsonl"))).collect())
}

fn document(file: &Path, found: &std::result::Result<Audit, Broken>) -> Value {
    match found {
        Ok(audit) => json!({
            "file": file, "ok": true, "lines": audit.verified.lines, "first": audit.verified.first,
            "torn": audit.verified.torn, "head": hex::encode(audit.verified.head.hash), "calls": audit.calls,
            "open": audit.open.iter().map(open_call).collect::<Vec<_>>(),
            "pruned": audit.verified.first, "counted": audit.counted, "uncounted": audit.uncounted,
        }),
        Err(broken) => json!({
            "file": file, "ok": false, "part": broken.file, "line": broken.line.line, "problem": broken.line.problem,
        }),
    }
}

fn open_call(call: &OpenCall) -> Value {
    json!({
        "extension_id": call.extension_id, "call_id": call.call_id, "method": call.method, "capability": call.capability,
    })
}

fn sentence(file: &Path, found: &std::result::Result<Audit, Broken>) -> String {
    match found {
        Ok(audit) => {
            let torn = if audit.verified.torn { "; a last line was interrupted" } else { "" };
            let open = match audit.open.len() {
                0 => String::new(),
                1 => "; 1 call has not ended".to_owned(),
                open => format!("; {open} calls have not ended"),
            };
            let some = |count: u64, words: &str| if count == 0 { String::new() } else { format!("; {count} {words}") };
            let counted = some(audit.counted, "records beyond a rate limit were only counted");
            let uncounted = some(audit.uncounted, "counts were interrupted");
            let pruned = some(audit.verified.first, "earlier lines were removed to free space");
            let Audit { verified, calls, .. } = audit;
            let counted_as = |count: u64, thing: &str| format!("{count} {thing}{}", if count == 1 { "" } else { "s" });
            let (lines, calls) = (counted_as(verified.lines, "line"), counted_as(*calls, "call"));
            format!("{}: {lines} verified, {calls}{open}{counted}{uncounted}{pruned}{torn}", file.display())
        }
        Err(broken) => format!("{} line {}: {}", broken.file.display(), broken.line.line, broken.line.problem),
    }
}

struct Reader(Box<dyn VfsFile>);

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}
