//! `pi inspect`: writes a tape as a page.

use crate::output::stdout;
use clap::Args;
use pijs_inspector::{Report, decisions, page};
use pijs_runtime::tape::{open, unreadable};
use pijs_runtime::{Environment, Result, UserError};
use pijs_terminal::counted;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};

/// `pi inspect TAPE`
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// Recording, made by `pi --tape FILE`
    tape: PathBuf,
    /// The HTML page to write
    #[arg(short, long, value_name = "REPORT.html")]
    out: PathBuf,
    /// Ledger of the same session, whose decisions are shown with the calls
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
}

/// Writes the page. An existing page is replaced once the new one is complete.
pub(crate) fn run(environment: &Environment, args: &InspectArgs) -> Result<()> {
    let at = |path: &Path| environment.dirs.cwd.join(path);
    let (tape, out) = (at(&args.tape), at(&args.out));
    let decisions = match &args.ledger {
        None => BTreeMap::new(),
        Some(ledger) => {
            let path = at(ledger);
            let text = std::fs::read_to_string(&path)
                .map_err(|error| UserError::failed(format!("{} cannot be read: {error}", path.display())))?;
            let found = decisions(&text);
            if found.is_empty() {
                return Err(UserError::failed(format!("{} contains no decision about a call", path.display()))
                    .help("the ledger of a session is a file below ~/.pi/agent/logs/extensions"));
            }
            found
        }
    };
    // A file that does not exist or is no tape has the errors of the other commands on tapes.
    open(&tape)?;
    let file = File::open(&tape).map_err(|error| UserError::failed(format!("{}: {error}", tape.display())))?;
    let report = Report::of(&mut BufReader::new(file), &decisions).map_err(|error| unreadable(&tape, &error))?;
    let document =
        page(&report).map_err(|error| UserError::failed(format!("the report cannot be written: {error}")))?;
    replace(&out, document.as_bytes())
        .map_err(|error| UserError::failed(format!("{} cannot be written: {error}", out.display())))?;
    let (realms, events, verdicts) = (
        counted(report.realms, "realm"),
        counted(report.rows.len(), "event"),
        counted(report.verdicts.len(), "verdict"),
    );
    stdout(&format!("{}: {realms}, {events}, {verdicts}; open it in a browser", out.display()));
    Ok(())
}

fn replace(out: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.persist(out)?;
    Ok(())
}
