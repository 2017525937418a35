//! Edits the prompt in the user's external editor.

use super::commands::UserCommands;
use pijs_durable::OwnTemporary;
use pijs_runtime::Environment;
use serde_json::Value;
use std::fs::File;
use std::io::{self, Read, Write};

/// Maximum size in bytes of a text that is read back.
const LARGEST: u64 = 1 << 20;

impl UserCommands {
    /// Opens the text of the editor in the external editor, and reads the result.
    pub(super) async fn edit_outside(&self) {
        let command = editor(&self.environment);
        let text = self.screen.read(|view| view.editor.field.whole());
        let edited = self.edit_in(&command, &text).await;
        match edited {
            Ok(Some(text)) => {
                let work = self.screen.change(|view| view.set_editor_text(&text));
                work.into_iter().for_each(|work| self.screen.ask(work));
            }
            Ok(None) => self.fail(&format!("{command} failed; the text is unchanged")),
            Err(error) => self.fail(&format!("{command}: {error}; the text is unchanged")),
        }
    }

    async fn edit_in(&self, command: &str, text: &str) -> io::Result<Option<String>> {
        // Programs of extensions may read the folder of temporary files; this one is closed to them.
        let own = self.environment.dirs.agent_dir.join("pijs");
        std::fs::create_dir_all(&own)?;
        let folder = OwnTemporary::new_in(&own, "pi-editor")?;
        let file = folder.path().join("prompt.md");
        File::create_new(&file)?.write_all(text.as_bytes())?;
        let mut words = command.split_whitespace();
        let mut program = tokio::process::Command::new(words.next().unwrap_or_default());
        program.args(words).arg(&file).current_dir(&self.session.cwd).kill_on_drop(true);
        let status = self.screen.lend(async { program.status().await }).await?;
        if !status.success() {
            return Ok(None);
        }
        let mut edited = String::new();
        File::open(&file)?.take(LARGEST).read_to_string(&mut edited)?;
        let edited = edited.strip_prefix('\u{feff}').unwrap_or(&edited);
        Ok(Some(edited.strip_suffix('\n').unwrap_or(edited).to_owned()))
    }
}

/// Returns the editor command: the user's setting or environment variable, or pi's default. Settings of a project are ignored,
/// because they could run a program.
fn editor(environment: &Environment) -> String {
    let settings =
        pijs_runtime::settings::read_text(&environment.dirs.agent_dir.join("settings.json")).unwrap_or_default();
    let settings: Value = serde_json::from_str(&settings).unwrap_or_default();
    let set = settings["externalEditor"].as_str().filter(|command| !command.trim().is_empty());
    let set = set.or_else(|| environment.variable("VISUAL")).or_else(|| environment.variable("EDITOR"));
    set.unwrap_or("nano").to_owned()
}
