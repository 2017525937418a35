//! Lines for the user while a session is built and runs: warnings, notes, progress.

use pijs_hostcall::{Answer, BoxFuture, Prompter, Question};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Takes lines for the user. Cheap to clone; lines may come from any thread.
///
/// A line can quote an extension, a file or a server, so code that shows it on a terminal must clean it first
/// ([`clean`](crate::clean)).
#[derive(Clone)]
pub struct Notices {
    show: Arc<dyn Fn(&str) + Send + Sync>,
    progress: Option<Arc<ShowProgress>>,
    /// Number of permission prompts that wait for the user.
    open_prompts: Arc<AtomicUsize>,
}

/// Shows a line until it is replaced, or removed by `None`.
type ShowProgress = dyn Fn(Option<&str>) + Send + Sync;

impl Notices {
    /// Creates notices that pass each line to `show`.
    pub fn new(show: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { show: Arc::new(show), progress: None, open_prompts: Arc::default() }
    }

    /// Passes lines about progress to `progress`, which shows one at a time and removes it when the work has ended.
    #[must_use]
    pub fn with_progress(self, progress: impl Fn(Option<&str>) + Send + Sync + 'static) -> Self {
        Self { progress: Some(Arc::new(progress)), ..self }
    }

    /// Shows a line about progress; `None` at the end of the work.
    pub fn progress(&self, line: Option<&str>) {
        match (&self.progress, line) {
            (Some(progress), line) => progress(line),
            (None, Some(line)) => self.show(line),
            (None, None) => {}
        }
    }

    /// Creates notices that write each line to stderr, cleaned for a terminal.
    pub fn to_stderr() -> Self {
        use std::io::Write as _;
        Self::new(|line| drop(writeln!(std::io::stderr().lock(), "{}", crate::clean(line))))
    }

    /// Shows one line, or several that belong together.
    pub fn show(&self, line: &str) {
        (self.show)(line);
    }

    /// Returns whether the user has a permission prompt to answer. Lines about progress would scroll it away.
    pub(crate) fn has_open_prompt(&self) -> bool {
        self.open_prompts.load(Ordering::Relaxed) > 0
    }

    /// Counts the open prompts of `prompter`.
    pub(crate) fn counting(&self, prompter: Arc<dyn Prompter>) -> Arc<dyn Prompter> {
        Arc::new(CountedPrompter { prompter, open: Arc::clone(&self.open_prompts) })
    }

    /// Shows a warning.
    pub fn warn(&self, message: impl fmt::Display) {
        self.show(&format!("warning: {message}"));
    }
}

struct CountedPrompter {
    prompter: Arc<dyn Prompter>,
    open: Arc<AtomicUsize>,
}

/// An open prompt, until it is answered or given up.
struct OpenPrompt(Arc<AtomicUsize>);

impl Prompter for CountedPrompter {
    fn ask(&self, question: Question) -> BoxFuture<'static, Answer> {
        self.open.fetch_add(1, Ordering::Relaxed);
        let open = OpenPrompt(Arc::clone(&self.open));
        let answer = self.prompter.ask(question);
        Box::pin(async move {
            let _open = open;
            answer.await
        })
    }
}

impl Drop for OpenPrompt {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notices")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use pijs_hostcall::Evidence;
    use pijs_protocol::ExtensionId;

    struct Denies;

    impl Prompter for Denies {
        fn ask(&self, _: Question) -> BoxFuture<'static, Answer> {
            Box::pin(std::future::ready(Answer::Deny))
        }
    }

    #[test]
    fn a_prompt_is_open_until_it_is_answered_or_given_up() {
        let notices = Notices::new(|_| {});
        let (other, prompter) = (notices.clone(), notices.counting(Arc::new(Denies)));
        let ask = || prompter.ask(Question::about(ExtensionId::new("a"), Evidence::default().expected_loss()));
        let (first, second) = (ask(), ask());
        assert!(other.has_open_prompt());
        drop(first);
        assert!(other.has_open_prompt());
        assert_eq!(second.now_or_never(), Some(Answer::Deny));
        assert!(!other.has_open_prompt());
    }
}
