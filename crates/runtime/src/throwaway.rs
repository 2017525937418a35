//! Creates a throwaway environment: a new project and home, no variables and no ledger, for inspecting an extension.

use crate::environment::Environment;
use crate::user_error::{Result, UserError};
use pijs_hostcall::LedgerSink;
use pijs_packages::Dirs;
use std::collections::BTreeMap;
use std::path::Path;

/// Creates a project and home below `base`, with the variables of every snapshot document.
pub fn surroundings(environment: &Environment, base: &Path) -> Result<Environment> {
    let made = |error: std::io::Error| UserError::failed(format!("{}: {error}", base.display()));
    let base = base.canonicalize().map_err(made)?;
    let folder = |name: &str| {
        let path = base.join(name);
        std::fs::create_dir_all(&path).map(|()| path).map_err(made)
    };
    let (cwd, home, temp, agent_dir) = (folder("cwd")?, folder("home")?, folder("tmp")?, folder("home/.pi/agent")?);
    let mut variables: BTreeMap<String, String> = BTreeMap::new();
    let mut set = |name: &str, value: String| variables.insert(name.to_owned(), value);
    if let Some(path) = environment.variable("PATH") {
        set("PATH", path.to_owned());
    }
    set("HOME", home.display().to_string());
    set("TMPDIR", temp.display().to_string());
    set("PI_CODING_AGENT_DIR", agent_dir.display().to_string());
    for (name, value) in [("TZ", "UTC"), ("LANG", "C.UTF-8"), ("PI_OFFLINE", "1")] {
        set(name, value.to_owned());
    }
    Ok(Environment {
        dirs: Dirs { agent_dir, cwd, home },
        temp,
        variables,
        stderr_is_terminal: false,
        stdin_is_terminal: false,
        stdout_is_terminal: false,
        trusts: None,
        session_dir: None,
        session: None,
        inspected_by: Some(environment.places()),
        started_with: environment.started_with.clone(),
        tape: None,
        log: None,
        notices: environment.notices.clone(),
    })
}

/// A ledger that discards its lines, for extensions that are only inspected.
pub struct NoLedger;

impl LedgerSink for NoLedger {
    fn append(&self, _: &[u8]) -> std::io::Result<()> {
        Ok(())
    }
}
