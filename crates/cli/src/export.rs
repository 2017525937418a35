//! `pi --export SESSION.jsonl [FILE]`.

use crate::output::{clean, stdout};
use pijs_environment::Ambient;
use pijs_runtime::export::{FORMS, NameOrigin, in_form_of, put};
use pijs_runtime::{Environment, Result, UserError};
use pijs_session_store::Session;
use std::path::Path;

/// Writes a session file in another format.
pub(crate) fn write(environment: &Environment, source: &Path, to: &[String]) -> Result<()> {
    let source = environment.path(&source.display().to_string());
    if !source.is_file() {
        return Err(UserError::failed(format!("File not found: {}", source.display())));
    }
    let session = Session::open(&source, &environment.dirs.cwd, Ambient::system())
        .map_err(|error| UserError::failed(error.to_string()))?;
    let stem = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let (to, name) = match to {
        [] => (environment.dirs.cwd.join(format!("pi-session-{stem}.html")), NameOrigin::Ours),
        [to] => (environment.path(to), NameOrigin::Theirs),
        _ => return Err(UserError::usage("--export writes one file").help("pi --export SESSION.jsonl FILE.html")),
    };
    let text = in_form_of(&session, &to).map_err(|error| UserError::failed(error.to_string()))?.ok_or_else(|| {
        UserError::usage(format!("{}: this form is not known", to.display()))
            .help(format!("name a file that ends in {FORMS}"))
    })?;
    put(&to, &text, name).map_err(|error| UserError::failed(format!("{} cannot be written: {error}", to.display())))?;
    stdout(&clean(&format!("Exported to: {}", to.display())));
    Ok(())
}
