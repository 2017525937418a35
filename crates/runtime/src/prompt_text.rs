//! Reads the system prompt and the default tools from the command line and the settings.

use crate::environment::Environment;
use crate::settings;
use crate::user_error::{Result, UserError};
use std::path::Path;

/// Returns the content of a file of this name, or the text itself.
pub(crate) fn text_or_file(environment: &Environment, given: &str) -> Result<String> {
    let path = environment.dirs.cwd.join(given);
    if given.is_empty() || !is_file(&path) {
        return Ok(given.to_owned());
    }
    let text = environment
        .open_named(&path)
        .and_then(std::io::read_to_string)
        .map_err(|error| UserError::failed(format!("{} cannot be read: {error}", path.display())))?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned())
}

/// Joins every `--append-system-prompt` by blank lines; `None` without any.
pub(crate) fn appended(environment: &Environment, given: &[String]) -> Result<Option<String>> {
    if given.is_empty() {
        return Ok(None);
    }
    let texts = given.iter().map(|text| text_or_file(environment, text)).collect::<Result<Vec<_>>>()?;
    Ok(Some(texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")))
}

/// Returns the setting `defaultTools`: built-in tools that are active at first.
pub(crate) fn usual_tools(environment: &Environment) -> Option<Vec<String>> {
    serde_json::from_value(settings::merged(environment).remove("defaultTools")?).ok()
}

/// Returns whether a path is a file. A prompt can be longer than any file name.
fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file())
}
