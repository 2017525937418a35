//! Checks that the firings do not depend on how a reply is cut into deltas, and that no cut delays a firing.

use pijs_rules::{
    Condition, EngineOptions, InterruptMode, MatchContext, Origin, Region, Rule, RuleEngine, RuleSettings, Settle,
    StreamKind, Window,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

const PATTERNS: &[(&str, &str)] = &[
    (r"\bTODO\b", ""),
    (r"TODO", ""),
    (r"^\s*let x", "m"),
    (r"foo$", "m"),
    (r"foo$", ""),
    (r"größe|日本", ""),
    (r"rm -rf /(?![\w.])", ""),
    (r"\b(\w+) \1\b", ""),
    (r"(?<!un)safe", ""),
    (r"a[^]*?b", ""),
    (r"todo", "i"),
    (r"^u:.{2}$", "m"),
];

fn words() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "TODO",
        "TODOS",
        "xTODO",
        " ",
        "\n",
        "\r\n",
        "let x",
        "foo",
        "größe",
        "日本",
        "🚀",
        "rm -rf /",
        "var",
        ".",
        "word word",
        "unsafe",
        "safe",
        "a",
        "b",
        "u:",
        "```",
        "```rs\n",
        "~~~\n",
        "\n```\n",
        "`",
        "  ",
        "\"",
        "\\",
    ]);
    prop::collection::vec(word, 0..30).prop_map(|words| words.concat())
}

fn rules(settle: Settle) -> Vec<Rule> {
    let mut rules = Vec::new();
    for (number, &(source, flags)) in PATTERNS.iter().enumerate() {
        for region in [Region::Any, Region::Code, Region::Prose] {
            for window in [Window::Accumulated, Window::Line] {
                let mut rule = Rule::new(format!("{number}-{region:?}-{window:?}"), Origin::Project, "x");
                rule.conditions.push(Condition { source: source.to_owned(), flags: flags.to_owned() });
                (rule.region, rule.window, rule.settle) = (region, window, settle);
                rules.push(rule);
            }
        }
    }
    rules
}

/// Returns the number of bytes that had been read when each rule fired. The end of the message counts as a byte.
fn fired(settle: Settle, stream: StreamKind, deltas: &[&str]) -> BTreeMap<String, usize> {
    let settings = RuleSettings {
        enabled: true,
        interrupt_mode: InterruptMode::Never,
        max_retries_per_turn: u32::MAX,
        ..RuleSettings::default()
    };
    let mut engine = RuleEngine::new(rules(settle), settings, EngineOptions::default());
    let context = match stream {
        StreamKind::Tool => MatchContext::tool("write", "call", 0),
        _ => MatchContext::text(0),
    };
    let (mut fired, mut read) = (BTreeMap::new(), 0);
    for delta in deltas {
        read += delta.len();
        for rule in engine.check_delta(delta, &context).into_iter().flat_map(|firing| firing.rules) {
            fired.insert(rule.name.to_string(), read);
        }
    }
    let ended = engine.end_of_call(&context).into_iter().chain(engine.end_of_message(0));
    for rule in ended.flat_map(|firing| firing.rules) {
        fired.insert(rule.name.to_string(), read + 1);
    }
    fired
}

/// Cuts a text after these characters.
fn cut<'a>(text: &'a str, cuts: &[prop::sample::Index]) -> Vec<&'a str> {
    let boundaries: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    if boundaries.is_empty() {
        return Vec::new();
    }
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| boundaries[cut.index(boundaries.len())]).collect();
    cuts.extend([0, text.len()]);
    cuts.sort_unstable();
    cuts.dedup();
    cuts.windows(2).map(|ends| &text[ends[0]..ends[1]]).collect()
}

fn check(stream: StreamKind, text: &str, cuts: &[prop::sample::Index]) -> Result<(), TestCaseError> {
    let characters: Vec<&str> =
        text.char_indices().map(|(at, character)| &text[at..at + character.len_utf8()]).collect();
    let deltas = cut(text, cuts);
    let boundary = |read: usize| {
        let mut end = 0;
        let ends = deltas.iter().map(|delta| {
            end += delta.len();
            end
        });
        ends.chain([text.len() + 1]).find(|&end| end >= read).unwrap_or(text.len() + 1)
    };
    let now = fired(Settle::Now, stream, &deltas);
    for settle in [Settle::Word, Settle::Line] {
        let single: BTreeMap<String, usize> =
            fired(settle, stream, &characters).into_iter().map(|(name, read)| (name, boundary(read))).collect();
        let cut = fired(settle, stream, &deltas);
        prop_assert_eq!(&cut, &single, "{:?} {:?}", settle, &deltas);
        for (name, read) in &cut {
            prop_assert!(now.get(name).is_some_and(|now| now <= read), "{} fires late: {:?}", name, &deltas);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn text_may_be_cut_anywhere(text in words(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        check(StreamKind::Text, &text, &cuts)?;
    }

    #[test]
    fn arguments_may_be_cut_anywhere(text in words(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let arguments = serde_json::json!({ "path": "a.rs", "content": text }).to_string();
        check(StreamKind::Tool, &arguments, &cuts)?;
    }
}
