//! Permission prompts: questions of the gate, which are shown above everything that an extension draws.

use crate::answer_choices::{AnswerChoice, ShownPart, choices, keys};
use pijs_hostcall::{Answer, Question};
use pijs_protocol::{ExtensionId, guard};
use pijs_terminal::layout::{clamp, wrap};
use std::cell::Cell;
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
            shown: Cell::new(ShownPart::Less),
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
        let room = rows.saturating_sub(7).max(1);
        // The extension controls the length of its text, which must not displace the warnings.
        let room_for_subject = room.saturating_sub(notes.len()).max(room / 2).max(1);
        let lines_of_subject = wrap(subject, inner).len();
        self.shown.set(if lines_of_subject + notes.len() <= room {
            ShownPart::Whole
        } else if lines_of_subject <= room_for_subject && lines_of_subject + 2 <= room {
            ShownPart::Subject
        } else {
            ShownPart::Less
        });
        let inside = if guard!(PromptNotes) {
            let mut inside = both_ends(wrap(subject, inner), room_for_subject);
            inside.extend(notes);
            both_ends(inside, room)
        } else {
            both_ends(wrap(subject, inner).into_iter().chain(notes).collect(), room)
        };
        let question = format!("pi asks: {} wants to {what}", self.question.who());
        let offered = choices(&self.question, self.shown.get());
        let labels: Vec<String> = offered.iter().map(AnswerChoice::label).collect();
        let mut answers = wrap(&labels.join("  "), columns.saturating_sub(4));
        if self.is_lost.get() {
            answers.push(keys(&offered));
        }
        let framed = |text: &str| {
            let text = clamp(&pijs_terminal::plain(text), columns.saturating_sub(4));
            format!("\u{1b}[7m{}\u{1b}[0m", pijs_terminal::layout::fit(&format!("▌ {text}"), columns))
        };
        let mut lines: Vec<String> =
            wrap(&question, columns.saturating_sub(4)).iter().map(|line| framed(line)).collect();
        lines.truncate(3);
        lines.extend(inside.iter().map(|line| framed(&format!("  {line}"))));
        lines.extend(answers.iter().map(|line| framed(line)));
        lines
    }
}

/// Shortens lines to at most `room`: the first lines, the number of omitted ones, and the last line.
fn both_ends(mut lines: Vec<String>, room: usize) -> Vec<String> {
    if lines.len() <= room {
        return lines;
    }
    let last = (room > 2).then(|| lines.pop()).flatten();
    let kept = room.saturating_sub(1 + usize::from(last.is_some()));
    let missing = lines.len() - kept;
    lines.truncate(kept);
    lines.push(format!("[{}]", pijs_terminal::counted(missing, "more line")));
    lines.extend(last);
    lines
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
        keys.iter().map(|(key, at_ms)| asked.key(key, start + Duration::from_millis(*at_ms))).collect()
    }

    #[test]
    fn a_subject_that_does_not_fit_is_allowed_once_only() {
        for (subject, answer) in [("short".to_owned(), Some(Answer::AllowSubject)), ("long ".repeat(400), None)] {
            let mut question = Question::about(ExtensionId::new("x"), Evidence::default().expected_loss());
            (question.capability, question.subject) = ("exec".into(), subject);
            let (mut asked, start) = (PermissionPrompt::new(question, oneshot::channel().0), Instant::now());
            asked.since = Some(start);
            asked.lines(80, 24);
            assert_eq!(asked.key("s", start + TYPING_PAUSE), answer);
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
