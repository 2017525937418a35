//! Permission prompts: questions of the gate, which are shown above everything that an extension draws.

use crate::answer_choices::{AnswerChoice, ShownPart, choices, keys};
use pijs_hostcall::{Answer, Question};
use pijs_protocol::{ExtensionId, guard};
use pijs_terminal::layout::{clamp, wrap};
use std::cell::Cell;
use std::ops::Range;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Time after a prompt appears in which keys are ignored, because they were typed before it could be read.
pub(super) const DEAD_TIME: Duration = Duration::from_millis(300);
/// Pause after which a key answers a prompt that appeared while the user was typing.
const TYPING_PAUSE: Duration = Duration::from_secs(1);

/// A permission prompt.
#[derive(Debug)]
pub(super) struct PermissionPrompt {
    question: Question,
    /// The first line that is shown, of the subject and the notes.
    first: Cell<usize>,
    /// The line behind the last one that was shown.
    next: Cell<usize>,
    shown: Cell<ShownPart>,
    /// Whether a key was typed that is not an answer.
    is_lost: Cell<bool>,
    /// Time since which the prompt is visible and no key was typed.
    pub(super) since: Option<Instant>,
    /// Pause without keys that is required before a key counts as an answer.
    pause: Duration,
    pub(super) answer: oneshot::Sender<Answer>,
}

impl PermissionPrompt {
    pub(super) fn new(question: Question, answer: oneshot::Sender<Answer>) -> Self {
        Self {
            question,
            first: Cell::new(0),
            next: Cell::new(0),
            shown: Cell::new(ShownPart::Beginning),
            is_lost: Cell::new(false),
            since: None,
            pause: DEAD_TIME,
            answer,
        }
    }

    pub(super) fn extension(&self) -> &ExtensionId {
        &self.question.extension
    }

    /// Returns the answer of a key. During continuous typing no key is an answer; a pause has to precede it.
    pub(super) fn key(&mut self, name: &str, now: Instant) -> Option<Answer> {
        let read = self.since.is_some_and(|since| now.duration_since(since) >= self.pause);
        if !read && guard!(PromptDeadTime) {
            if self.since.is_some() {
                (self.since, self.pause) = (Some(now), TYPING_PAUSE);
            }
            return None;
        }
        if matches!(name, "enter" | "escape" | "ctrl+c") {
            return Some(Answer::Deny);
        }
        if name == "space" {
            self.first.set(self.next.get());
            return None;
        }
        let offered = choices(&self.question, self.shown.get());
        let chosen = offered.iter().find(|choice| choice.key == name).map(|choice| choice.answer);
        self.is_lost.set(chosen.is_none());
        if chosen.is_none() {
            self.since = Some(now);
        }
        chosen
    }

    /// Returns the inverse frame of full width, at most `rows` high. Text of the extension is confined to the inside.
    pub(super) fn lines(&self, columns: usize, rows: usize) -> Vec<String> {
        let Question { what, subject, warnings, package, .. } = &self.question;
        let inner = columns.saturating_sub(6);
        let notes = warnings.iter().flat_map(|warning| wrap(&format!("note: {warning}"), inner));
        let all = package.iter().flat_map(|line| wrap(&format!("- {line}"), inner));
        let heading = (!package.is_empty()).then(|| "all that it requests:".to_owned());
        let notes: Vec<String> = notes.chain(heading).chain(all).collect();
        let inside: Vec<String> = wrap(subject, inner).into_iter().chain(notes).collect();
        let window = self.window(inside.len(), rows.saturating_sub(7).max(2));
        // The extension chooses its name, which must not displace what it wants to do.
        let (who, room) = (self.question.who(), columns.saturating_sub(4));
        let whole = wrap(&format!("pi asks: {who} wants to {what}"), room);
        let heading: Vec<String> = match whole.len() {
            ..=3 => whole,
            _ => {
                let who = wrap(&format!("pi asks: {who}"), room).into_iter().take(2);
                who.chain(wrap(&format!("wants to {what}"), room)).collect()
            }
        };
        let offered = choices(&self.question, self.shown.get());
        let labels: Vec<String> = offered.iter().map(AnswerChoice::label).collect();
        let mut answers = Vec::new();
        if window.len() < inside.len() {
            let (first, last, all) = (window.start + 1, window.end, inside.len());
            let more = if last < all { "shows more, then you can agree" } else { "shows the first lines again" };
            answers.push(format!("lines {first} to {last} of {all}; [space] {more}"));
        }
        answers.extend(wrap(&labels.join("  "), columns.saturating_sub(4)));
        if self.is_lost.get() {
            answers.push(keys(&offered));
        }
        let framed = |text: &str| {
            let text = clamp(&pijs_terminal::plain(text), columns.saturating_sub(4));
            format!("\u{1b}[7m{}\u{1b}[0m", pijs_terminal::layout::fit(&format!("▌ {text}"), columns))
        };
        let mut lines: Vec<String> = heading.iter().take(3).map(|line| framed(line)).collect();
        lines.extend(inside[window].iter().map(|line| framed(&format!("  {line}"))));
        lines.extend(answers.iter().map(|line| framed(line)));
        lines
    }

    /// Returns which of `all` lines are shown in `room` lines. Only after the last one was shown can the user agree.
    fn window(&self, all: usize, room: usize) -> Range<usize> {
        // One line states the position.
        let room = if all <= room { room } else { room - 1 };
        let first = if self.first.get() < all { self.first.get() } else { 0 };
        let end = all.min(first + room);
        self.first.set(first);
        self.next.set(end);
        if end == all || !guard!(PromptNotes) {
            self.shown.set(ShownPart::Whole);
        }
        first..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pijs_hostcall::Evidence;

    /// Opens a prompt during typing, and returns the answers of keys at given times.
    fn answers(keys: &[(&str, u64)]) -> Vec<Option<Answer>> {
        let question = Question::about(ExtensionId::new("x"), Evidence::default().expected_loss());
        let (mut asked, start) = (PermissionPrompt::new(question, oneshot::channel().0), Instant::now());
        asked.since = Some(start);
        asked.lines(80, 24);
        keys.iter().map(|(key, at_ms)| asked.key(key, start + Duration::from_millis(*at_ms))).collect()
    }

    #[test]
    fn a_subject_that_does_not_fit_is_allowed_after_its_last_line_was_shown() {
        for (subject, pages) in [("short".to_owned(), 0), ("long ".repeat(400), 1), ("long ".repeat(900), 4)] {
            let mut question =
                Question::about(ExtensionId::new("長い/".repeat(120)), Evidence::default().expected_loss());
            (question.capability, question.subject) = ("exec".into(), format!("{subject}end"));
            question.what = "run programs".to_owned();
            let (mut asked, mut now) = (PermissionPrompt::new(question, oneshot::channel().0), Instant::now());
            asked.since = Some(now);
            for page in 0..=pages {
                let shown = asked.lines(80, 24).join("\n");
                assert!(shown.contains("wants to run programs"));
                assert_eq!(shown.contains("end"), page == pages);
                now += TYPING_PAUSE;
                let answer = asked.key("s", now);
                assert_eq!(answer, (page == pages).then_some(Answer::AllowSubject), "page {page} of {pages}");
                now += TYPING_PAUSE;
                asked.key("space", now);
            }
        }
    }

    #[test]
    fn a_narrow_screen_shows_a_question() {
        for columns in 0..40 {
            let mut question = Question::about(ExtensionId::new("x"), Evidence::default().expected_loss());
            question.what = "create, change and delete files".to_owned();
            let asked = PermissionPrompt::new(question, oneshot::channel().0);
            assert!(!asked.lines(columns, 24).is_empty(), "{columns} columns");
        }
    }

    #[test]
    fn keys_of_continuous_typing_do_not_answer_a_prompt() {
        assert_eq!(answers(&[("y", 300)]), [Some(Answer::AllowOnce)]);
        assert_eq!(answers(&[("t", 150), ("y", 350), ("y", 600), ("w", 1500)]), [None; 4]);
        assert_eq!(answers(&[("t", 150), ("y", 1150)]), [None, Some(Answer::AllowOnce)], "after a pause");
        assert_eq!(
            answers(&[("t", 400), ("y", 600), ("y", 1700)]),
            [None, None, Some(Answer::AllowOnce)],
            "after a lost key"
        );
    }
}
