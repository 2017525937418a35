//! Answers that the user can give to a question about a capability: their keys and labels, for all front ends.
//!
//! Only answers that differ are offered, and each states its scope and duration: this subject, everything of its kind, or all
//! requests of the extension.

use pijs_hostcall::{Answer, Question};

/// Consecutive refusals after which muting is offered.
const OFFER_MUTE: u32 = 3;

/// An answer that is offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerChoice {
    /// Key that selects the answer: one letter.
    pub key: &'static str,
    /// Label without the key.
    pub words: String,
    /// Answer that is passed to the gate.
    pub answer: Answer,
}

impl AnswerChoice {
    /// Formats the label with the key, as in `[y] once`.
    pub fn label(&self) -> String {
        format!("[{}] {}", self.key, self.words)
    }
}

/// Returns the answers to a question. `is_read` is set when the user sees all requests of the extension.
pub fn choices(question: &Question, is_read: bool) -> Vec<AnswerChoice> {
    let (this, any) = match question.capability.as_str() {
        _ if question.subject.is_empty() => ("", ""),
        "read" | "write" => ("this path", "any path"),
        "exec" => ("this command", "any command"),
        "http" => ("this server", "any server"),
        "env" if question.subject.contains(", ") => ("these variables", "any variable"),
        "env" => ("this variable", "any variable"),
        "tool" => ("this tool", "any tool"),
        "mcp" => ("this tool", "any tool"),
        _ => ("this", "all of it"),
    };
    let of =
        |what: &str, how_long: &str| if what.is_empty() { how_long.to_owned() } else { format!("{what} {how_long}") };
    let choice = |key, words: String, answer| AnswerChoice { key, words, answer };
    let mut choices = vec![
        choice("y", "yes, once".to_owned(), Answer::AllowOnce),
        choice("s", of(this, "this session"), Answer::AllowSubject),
    ];
    if question.can_be_kept {
        choices.push(choice("w", of(this, "always"), Answer::AllowAlways));
    }
    if !any.is_empty() {
        choices.push(choice("a", of(any, "this session"), Answer::AllowCapability));
    }
    // The answers above already cover a single request for this capability.
    let is_same = question.subject.is_empty() && question.package.len() == 1;
    if is_read && !question.package.is_empty() && !is_same {
        choices.push(choice("p", "all listed here this session".to_owned(), Answer::AllowPackage));
        choices.push(choice("k", "all listed here always".to_owned(), Answer::AllowPackageAlways));
    }
    choices.push(choice("n", "no".to_owned(), Answer::Deny));
    let never = match (question.can_be_kept, this) {
        (true, "") => "never".to_owned(),
        (true, this) => format!("never {this}"),
        (false, this) => of(this, "not in this session").trim().to_owned(),
    };
    choices.push(choice("v", never, Answer::DenyAlways));
    if question.refused >= OFFER_MUTE {
        choices.push(choice("m", "ask no more questions for this extension".to_owned(), Answer::Mute));
    }
    choices
}

/// Returns the keys of `choices` as a list.
pub fn keys(choices: &[AnswerChoice]) -> String {
    let keys: Vec<&str> = choices.iter().map(|choice| choice.key).collect();
    format!("answer with one of: {}", keys.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pijs_hostcall::Evidence;
    use pijs_protocol::ExtensionId;

    fn question(capability: &str, subject: &str, is_kept: bool, package: &[&str]) -> Question {
        let mut question = Question::about(ExtensionId::new("x"), Evidence::default().expected_loss());
        (question.capability, question.subject) = (capability.into(), subject.to_owned());
        question.can_be_kept = is_kept;
        question.package = package.iter().map(|line| (*line).to_owned()).collect();
        question
    }

    fn labels(question: &Question, is_read: bool) -> String {
        choices(question, is_read).iter().map(AnswerChoice::label).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn labels_state_scope_and_duration() {
        let kept = question("read", "'/usr/lib/node_modules'", true, &[]);
        assert_eq!(
            labels(&kept, true),
            "[y] yes, once [s] this path this session [w] this path always [a] any path this session [n] no [v] never this path"
        );
        let listed = question("exec", "git log", false, &["read files: /usr", "run programs: git"]);
        assert!(labels(&listed, true).contains("[p] all listed here this session [k] all listed here always"));
        assert!(!labels(&listed, false).contains("[p]"), "what is not seen is not agreed to");
        assert!(labels(&listed, true).ends_with("[n] no [v] this command not in this session"));
    }

    #[test]
    fn equivalent_answers_are_offered_once() {
        let whole = question("verdict", "", true, &["decide what models say"]);
        assert_eq!(labels(&whole, true), "[y] yes, once [s] this session [w] always [n] no [v] never");
        assert_eq!(keys(&choices(&whole, true)), "answer with one of: y s w n v");
    }
}
