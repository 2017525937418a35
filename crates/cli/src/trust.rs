//! `pi trust`.

use crate::output::{clean, stderr};
use pijs_runtime::trust::Trust;
use pijs_runtime::{Environment, Result};

/// `pi trust [--remove]`: trusts the working folder, or stops trusting it, and prints the folder.
pub(crate) fn change(environment: &Environment, remove: bool) -> Result<()> {
    let folder = &environment.dirs.cwd;
    Trust::read(environment)?.set(folder, !remove)?;
    let shown = clean(&folder.display().to_string());
    stderr(&match remove {
        false => format!("trusted: {shown}; its .pi takes effect from the next start on (to undo: pi trust --remove)"),
        true => format!("no longer trusted: {shown}; its .pi has no effect"),
    });
    Ok(())
}
