//! `settings.json` as the command line's own parts read it: one object, each key by itself.

use crate::environment::Environment;
use crate::trust::Trust;
use serde_json::{Map, Value};

/// The user's settings, and over them those of a folder that is trusted. What is wrong with a file was said when the
/// policy was read.
pub(crate) fn merged(environment: &Environment) -> Map<String, Value> {
    let dirs = &environment.dirs;
    let is_trusted = Trust::read(environment).is_ok_and(|trust| trust.covers(&dirs.cwd));
    let project = is_trusted.then(|| dirs.cwd.join(".pi/settings.json"));
    let mut all = Map::new();
    for path in [dirs.agent_dir.join("settings.json")].into_iter().chain(project) {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        all.extend(serde_json::from_str::<Map<String, Value>>(&text).unwrap_or_default());
    }
    all
}
