//! Calls the agent's ports through its `PortObserver`, if there is one.

use crate::agent::Agent;
use crate::observer::{OpenSession, RunShell, SessionFault, ShellOutput};
use crate::outcome::ControlError;
use futures_util::FutureExt as _;
use pijs_llm::provider::Provider;
use pijs_resources::Resources;
use pijs_session_store::Session;
use pijs_tools::system::ShellOutcome;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Agent {
    /// Reads skills, prompts and context files through the observer.
    pub(crate) fn read_resources(&self) -> Resources {
        match &self.options.observer {
            Some(observer) => observer.resources(&self.prompt.places),
            None => Resources::load(&self.prompt.places),
        }
    }

    /// Opens the file of another session through the observer.
    pub(crate) fn open_session(&self, path: &Path, open: OpenSession<'_>) -> Result<Session, ControlError> {
        let opened = match &self.options.observer {
            Some(observer) => observer.session(path, open),
            None => open().map_err(SessionFault::File),
        };
        opened.map_err(|fault| match fault {
            SessionFault::File(error) => error.into(),
            SessionFault::Recorded(words) => ControlError::Refused(words),
        })
    }

    /// Runs a shell command of the user through the observer.
    pub(crate) async fn observed_shell<'a>(
        &'a self,
        command: &'a str,
        output: ShellOutput<'a>,
        run: RunShell<'a>,
    ) -> Result<ShellOutcome, String> {
        match &self.options.observer {
            Some(observer) => observer.shell(command, output, run).await,
            None => run(output).await,
        }
    }

    /// Stores the complete output of a command through the observer.
    pub(crate) async fn store_output(&self, name: &str, output: String) -> Option<PathBuf> {
        let storing = self.options.system.keep(name.to_owned(), output.into_bytes());
        let store = storing.map(Result::ok).boxed_local();
        match &self.options.observer {
            Some(observer) => observer.store_output(name, store).await,
            None => store.await,
        }
    }

    /// Returns an opened provider as wrapped by the observer.
    pub(crate) fn observed(&self, opened: Arc<dyn Provider>) -> Arc<dyn Provider> {
        match &self.options.observer {
            Some(observer) => observer.provider(opened),
            None => opened,
        }
    }
}
