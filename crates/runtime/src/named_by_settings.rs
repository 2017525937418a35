//! Lists the files that the user's own settings name, and that a later run reads or runs: skills, prompt templates, rules, and
//! the commands that produce a key (`!command`).

use crate::config::SessionConfig;
use crate::environment::Environment;
use crate::mcp_config;
use crate::own_state::{MAX_LINKED_ENTRIES, MAX_SKILL_DEPTH};
use crate::settings;
use pijs_connectors::exec::{NamedCommand, code_files};
use pijs_connectors::links::links_below;
use pijs_protocol::guard;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Settings whose entries are files or folders of texts for the model.
const TEXTS: [&str; 3] = ["skills", "prompts", "rules"];
/// Settings that name a program.
const PROGRAMS: [&str; 3] = ["externalEditor", "npmCommand", "shellPath"];
/// Variables with the command of the user's editor.
const EDITORS: [&str; 2] = ["EDITOR", "VISUAL"];
/// Maximum size of a file that is searched for commands.
const LARGEST: u64 = 4 << 20;

/// Returns the files and folders, with links resolved.
pub(crate) fn paths(environment: &Environment, config: &SessionConfig) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (file, said) in settings::by_file(environment) {
        let folder = file.parent().unwrap_or(&environment.dirs.cwd);
        for entry in TEXTS.iter().filter_map(|key| said.get(*key)?.as_array()).flatten().filter_map(Value::as_str) {
            let place = place(environment, folder, entry);
            found.extend(place.iter().flat_map(|place| links_below(place, MAX_SKILL_DEPTH, MAX_LINKED_ENTRIES)));
            found.extend(place);
        }
        for value in PROGRAMS.iter().filter_map(|key| said.get(*key)) {
            let words: Vec<String> = match value {
                Value::Array(words) => words.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect(),
                value => shell_of(value.as_str().unwrap_or_default()).into(),
            };
            found.extend(files_of_command(environment, &words));
        }
    }
    let agent_dir = &environment.dirs.agent_dir;
    for file in [agent_dir.join("auth.json"), agent_dir.join("models.json"), mcp_config::user_file(environment)] {
        let text = pijs_durable::read_regular(&file, LARGEST).unwrap_or_default();
        let mut commands = Vec::new();
        collect(&serde_json::from_slice(&text).unwrap_or_default(), &mut commands);
        for line in commands {
            found.extend(files_of_command(environment, &shell_of(&line)));
        }
    }
    for editor in EDITORS.iter().filter_map(|name| environment.variable(name)).filter(|_| guard!(PlacesNamedPrograms)) {
        found.extend(files_of_command(environment, &shell_of(editor)));
    }
    // A shell finds programs there. The project's own folders are excluded: a program finds them only if the user names them.
    let searched = environment.variable("PATH").unwrap_or_default().split(':').map(Path::new);
    let is_elsewhere = |folder: &&Path| folder.is_absolute() && !folder.starts_with(&environment.dirs.cwd);
    found.extend(searched.filter(is_elsewhere).filter(|_| guard!(PlacesSearchPath)).map(Path::to_owned));
    // A later run with the same options reads them again.
    let texts = config.append_system_prompt.iter().chain(&config.system_prompt);
    found.extend(texts.map(|text| environment.path(text)).filter(|file| file.is_file()));
    let named = config.resources.skills.iter().chain(&config.resources.prompts);
    let plugins = environment.variables.iter().filter(|(name, _)| name.starts_with("RUMMY_PLUGIN_"));
    let named = named.chain(plugins.map(|(_, path)| path)).filter(|name| !name.is_empty() && guard!(PlacesNamedTexts));
    found.extend(named.map(|name| environment.path(name)).filter(|path| path.exists()));
    found.iter().map(|path| pijs_durable::without_links(path)).collect()
}

/// Returns the words of a shell that runs a command line.
fn shell_of(line: &str) -> [String; 3] {
    ["sh", "-c", line].map(str::to_owned)
}

/// Returns the file or folder of an entry: the part before a pattern. An entry that excludes files names none.
fn place(environment: &Environment, folder: &Path, entry: &str) -> Option<PathBuf> {
    let entry = entry.strip_prefix('+').unwrap_or(entry);
    if entry.starts_with(['!', '-']) {
        return None;
    }
    let plain = entry.split(['*', '?', '[', '{']).next().unwrap_or(entry);
    let plain = if plain.len() < entry.len() { plain.rsplit_once('/').map_or("", |(above, _)| above) } else { plain };
    let path = match plain.strip_prefix("~/") {
        Some(rest) => environment.dirs.home.join(rest),
        None => folder.join(plain),
    };
    (path != folder).then_some(path)
}

/// Returns the files of a command, which starts in the project or in the home.
fn files_of_command(environment: &Environment, words: &[String]) -> Vec<PathBuf> {
    let dirs = &environment.dirs;
    let Some((command, args)) = words.split_first() else { return Vec::new() };
    let named = NamedCommand { command, args, env: &BTreeMap::new() };
    let folders: [&Path; 2] = [&dirs.cwd, &dirs.home];
    folders.into_iter().flat_map(|folder| code_files(&named, folder, folders)).collect()
}

/// Collects the shell command lines (`!command`) in a file of keys or models.
fn collect(value: &Value, commands: &mut Vec<String>) {
    match value {
        Value::String(text) => commands.extend(text.strip_prefix('!').map(str::to_owned)),
        Value::Array(items) => items.iter().for_each(|item| collect(item, commands)),
        Value::Object(members) => members.values().for_each(|member| collect(member, commands)),
        _ => {}
    }
}
