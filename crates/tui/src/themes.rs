//! Loads themes of the user, of a trusted project, of packages and of extensions, and chooses the current one.

use super::commands::UserCommands;
use super::transcript::Style;
use pijs_durable::read_regular;
use pijs_runtime::trust::Trust;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Maximum size of a theme file in bytes.
const LARGEST_THEME: u64 = 256 * 1024;
/// Maximum number of themes.
const MAX_THEMES: usize = 200;
/// Maximum depth of colour variables that refer to each other.
const DEEPEST_VARIABLE: usize = 10;

impl UserCommands {
    /// Publishes the themes to realms. Each problem is reported only once.
    pub(super) fn publish_themes(&self) {
        let (themes, problems) = themes(&self.session.agent.themes());
        self.session.host.set_state("themes", themes);
        let mut said = self.theme_problems.borrow_mut();
        for problem in problems {
            if said.insert(problem.clone()) {
                self.screen.change(|view| view.say(Style::Warning, &problem));
            }
        }
    }

    fn is_trusted(&self) -> bool {
        Trust::read(&self.environment).is_ok_and(|trust| trust.covers(&self.environment.dirs.cwd))
    }

    /// Applies the theme named in `settings.json`.
    pub(super) fn take_own_theme(&self) {
        let dirs = &self.environment.dirs;
        let project = self.is_trusted().then(|| dirs.cwd.join(".pi/settings.json"));
        let set = |file: PathBuf| {
            let settings: Value = serde_json::from_str(&pijs_runtime::settings::read_text(&file).ok()?).ok()?;
            settings["theme"].as_str().map(str::to_owned)
        };
        let name = project.and_then(set).or_else(|| set(dirs.agent_dir.join("settings.json")));
        if let Some(name) = name {
            self.port.choose_theme(&name);
        }
    }
}

/// Reads theme files, and the theme files in folders. Returns them in the format for realms, `{name, path, foregrounds,
/// backgrounds}`, with the problems of invalid ones.
fn themes(places: &[PathBuf]) -> (Vec<Value>, Vec<String>) {
    let (mut found, mut problems): (Vec<Value>, Vec<String>) = (Vec::new(), Vec::new());
    for place in places {
        let mut files: Vec<PathBuf> = if place.is_dir() {
            let entries = std::fs::read_dir(place).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
            entries.filter(|path| path.extension().is_some_and(|kind| kind == "json")).collect()
        } else {
            Vec::from_iter(place.is_file().then(|| place.clone()))
        };
        files.sort();
        for file in files {
            match theme(&file) {
                Ok(theme) if found.iter().any(|known| known["name"] == theme["name"]) => {}
                Ok(theme) => found.push(theme),
                Err(problem) => problems.push(format!("theme {}: {problem}", file.display())),
            }
            if found.len() + problems.len() >= MAX_THEMES {
                return (found, problems);
            }
        }
    }
    (found, problems)
}

fn theme(file: &Path) -> Result<Value, String> {
    let text = read_regular(file, LARGEST_THEME).map_err(|error| error.to_string())?;
    let value: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    let name = value["name"].as_str().filter(|name| !name.is_empty()).ok_or("it has no name")?;
    let colours = value["colors"].as_object().ok_or("it has no colors")?;
    let empty = Map::new();
    let variables = value["vars"].as_object().unwrap_or(&empty);
    let (mut foregrounds, mut backgrounds) = (Map::new(), Map::new());
    for (key, colour) in colours {
        let colour = resolve(colour, variables).ok_or_else(|| format!("{key} is not a colour: {colour}"))?;
        let side = if key.ends_with("Bg") { &mut backgrounds } else { &mut foregrounds };
        side.insert(key.clone(), colour);
    }
    Ok(json!({"name": name, "path": file, "foregrounds": foregrounds, "backgrounds": backgrounds}))
}

/// Resolves a colour: `#rrggbb`, an index of the terminal's palette, an empty text, or a variable.
fn resolve(colour: &Value, variables: &Map<String, Value>) -> Option<Value> {
    let mut colour = colour.clone();
    for _ in 0..DEEPEST_VARIABLE {
        match &colour {
            Value::Number(number) => return (number.as_u64()? < 256).then_some(colour),
            Value::String(text) if text.is_empty() => return Some(colour),
            Value::String(text) if text.starts_with('#') => {
                let is_hex = text.len() == 7 && text[1..].bytes().all(|byte| byte.is_ascii_hexdigit());
                return is_hex.then_some(colour);
            }
            Value::String(name) => colour = variables.get(name)?.clone(),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn themes_are_read_and_problems_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in [
            (
                "a.json",
                r##"{"name": "mine", "vars": {"x": "y", "y": "#112233"}, "colors": {"accent": "x", "text": 7, "dim": "", "selectedBg": "#000000"}}"##,
            ),
            ("b.json", r#"{"name": "loop", "vars": {"x": "x"}, "colors": {"accent": "x"}}"#),
            ("c.json", "{"),
            ("d.json", r#"{"name": "mine", "colors": {}}"#),
            ("e.txt", "no theme"),
        ] {
            std::fs::write(folder.path().join(name), text).expect("a file");
        }
        let (found, problems) = themes(&[folder.path().to_owned(), folder.path().join("missing")]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0]["foregrounds"], json!({"accent": "#112233", "text": 7, "dim": ""}));
        assert_eq!(found[0]["backgrounds"], json!({"selectedBg": "#000000"}));
        assert!(problems.len() == 2 && problems[0].contains("accent is not a colour"), "{problems:?}");
    }
}
