//! Answers that the user can give to a question about a capability: their keys and labels, for all front ends.
//!
//! Only answers that differ are offered, and each states its scope and duration: this subject, everything of its kind, or all
//! requests of the extension.

use pijs_hostcall::{Answer, AnswerExtent, Question};

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

/// How much of a question the user has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShownPart {
    /// Not all of it: the user can only refuse.
    Beginning,
    /// Everything.
    Whole,
}

/// Returns the answers to a question, of which the user sees a part.
pub fn choices(question: &Question, shown: ShownPart) -> Vec<AnswerChoice> {
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
    if question.holds.is_yes_or_no() {
        return yes_or_no(question, shown);
    }
    let of =
        |what: &str, how_long: &str| if what.is_empty() { how_long.to_owned() } else { format!("{what} {how_long}") };
    let choice = |key, words: String, answer| AnswerChoice { key, words, answer };
    let mut choices = Vec::new();
    if shown == ShownPart::Whole {
        choices.push(choice("y", yes(question.holds).to_owned(), Answer::AllowOnce));
        if question.is_whole {
            choices.push(choice("s", of(this, "this session"), Answer::AllowSubject));
        }
        if question.can_be_kept {
            choices.push(choice("w", of(this, "always"), Answer::AllowAlways));
        }
        if !any.is_empty() {
            choices.push(choice("a", of(any, "this session"), Answer::AllowCapability));
        }
        // The answers above already cover a single request for this capability.
        let is_same = question.subject.is_empty() && question.package.len() == 1;
        if !question.package.is_empty() && !is_same {
            choices.push(choice("p", "all listed here this session".to_owned(), Answer::AllowPackage));
            choices.push(choice("k", "all listed here always".to_owned(), Answer::AllowPackageAlways));
        }
    }
    choices.push(choice("n", "no".to_owned(), Answer::Deny));
    let never = match (question.can_be_kept, this) {
        (true, "") => "never".to_owned(),
        (true, this) => format!("never {this}"),
        (false, this) => of(this, "not in this session").trim().to_owned(),
    };
    choices.push(choice("v", never, Answer::DenyAlways));
    choices.extend(mute(question));
    choices
}

/// Returns the answers to a question that is not about a call.
fn yes_or_no(question: &Question, shown: ShownPart) -> Vec<AnswerChoice> {
    let no = if question.holds == AnswerExtent::Change { "no, ask again at the next start" } else { "no" };
    let choice = |key, words: &str, answer| AnswerChoice { key, words: words.to_owned(), answer };
    let mut choices = vec![choice("n", no, Answer::Deny)];
    if shown == ShownPart::Whole {
        choices.insert(0, choice("y", yes(question.holds), Answer::AllowOnce));
    }
    choices.extend(mute(question));
    choices
}

/// Returns the answer that ends the prompts about an extension, after several refusals.
fn mute(question: &Question) -> Option<AnswerChoice> {
    let words = || "ask no more questions for this extension".to_owned();
    (question.refused >= OFFER_MUTE).then(|| AnswerChoice { key: "m", words: words(), answer: Answer::Mute })
}

/// Returns the label of [`Answer::AllowOnce`].
fn yes(holds: AnswerExtent) -> &'static str {
    match holds {
        AnswerExtent::Call | AnswerExtent::Act => "yes, once",
        AnswerExtent::Change => "yes, from now on",
        AnswerExtent::Load => "yes, while extensions load",
        AnswerExtent::Reload => "yes, until it is loaded again",
    }
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

    fn labels(question: &Question, shown: ShownPart) -> String {
        choices(question, shown).iter().map(AnswerChoice::label).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn labels_state_scope_and_duration() {
        let kept = question("read", "'/usr/lib/node_modules'", true, &[]);
        assert_eq!(
            labels(&kept, ShownPart::Whole),
            "[y] yes, once [s] this path this session [w] this path always [a] any path this session [n] no [v] never this path"
        );
        let listed = question("exec", "git log", false, &["read files: /usr", "run programs: git"]);
        assert!(
            labels(&listed, ShownPart::Whole).contains("[p] all listed here this session [k] all listed here always")
        );
        assert_eq!(labels(&listed, ShownPart::Beginning), "[n] no [v] this command not in this session");
        assert!(labels(&listed, ShownPart::Whole).ends_with("[n] no [v] this command not in this session"));
    }

    #[test]
    fn equivalent_answers_are_offered_once() {
        let whole = question("verdict", "", true, &["decide what models say"]);
        assert_eq!(labels(&whole, ShownPart::Whole), "[y] yes, once [s] this session [w] always [n] no [v] never");
        assert_eq!(keys(&choices(&whole, ShownPart::Whole)), "answer with one of: y s w n v");
        for (holds, label) in [
            (AnswerExtent::Load, "[y] yes, while extensions load [s] "),
            (AnswerExtent::Reload, "[y] yes, until it is loaded again [s] "),
        ] {
            let mut question = whole.clone();
            question.holds = holds;
            assert!(labels(&question, ShownPart::Whole).starts_with(label));
        }
    }

    #[test]
    fn a_question_that_is_not_about_a_call_has_two_answers() {
        let mut question = question("mcp", "/home/me/server.py", false, &[]);
        question.holds = AnswerExtent::Change;
        assert_eq!(labels(&question, ShownPart::Whole), "[y] yes, from now on [n] no, ask again at the next start");
        (question.holds, question.refused) = (AnswerExtent::Act, OFFER_MUTE);
        assert_eq!(
            labels(&question, ShownPart::Whole),
            "[y] yes, once [n] no [m] ask no more questions for this extension"
        );
    }
}
