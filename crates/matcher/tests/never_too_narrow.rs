//! A prefilter may say *maybe* too often, and *no* never too early: against `regress`, an engine for ECMAScript's syntax.

use pijs_matcher::Prefilter;
use proptest::prelude::*;

/// Expressions of everything that is translated, and of what is not.
fn source() -> impl Strategy<Value = String> {
    let atom = prop_oneof![
        6 => "[abcskSK1_ .\\-é]".prop_map(|text| text.replace('.', "\\.")),
        2 => Just(".".to_owned()),
        3 => prop::sample::select(vec!["\\d", "\\D", "\\s", "\\S", "\\w", "\\W", "\\b", "\\B", "^", "$"]).prop_map(str::to_owned),
        3 => prop::sample::select(vec!["[ab]", "[^ab]", "[a-k]", "[^\\w]", "[\\s\\d]", "[^é]", "[à-ü]", "[^s]", "[\\u017f]", "[\\W_]"])
            .prop_map(str::to_owned),
        1 => prop::sample::select(vec!["(?=a)", "(?!a)", "(?<=b)", "(?<!b)", "(a)\\1", "ſ", "K", "日", "😀", "[😀]"]).prop_map(str::to_owned),
    ];
    atom.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            3 => prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
            1 => prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("(?:{})", parts.join("|"))),
            1 => (inner, prop::sample::select(vec!["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?", "{40}"]))
                .prop_map(|(part, count)| format!("(?:{part}){count}")),
        ]
    })
}

fn text() -> impl Strategy<Value = Vec<String>> {
    let character = prop::sample::select(vec![
        "a", "b", "c", "k", "s", "A", "S", "K", "1", "_", " ", ".", "-", "\n", "\r", "é", "ü", "ſ", "K", "日",
        "\u{2028}", "😀",
    ]);
    let piece = prop::collection::vec(character, 0..5).prop_map(|characters| characters.concat());
    prop::collection::vec(piece, 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn no_means_no(source in source(), flags in prop::sample::select(vec!["", "i", "m", "s", "u", "iu", "ims"]), pieces in text()) {
        let Ok(expression) = regress::Regex::with_flags(&source, flags) else { return Ok(()) };
        let Some(filter) = Prefilter::new(&source, flags) else { return Ok(()) };
        let mut reading = filter.start();
        let mut text = String::new();
        for piece in &pieces {
            text.push_str(piece);
            let may_match = filter.may_match(&mut reading, piece);
            // Half a character is a character to an expression without `u`.
            let units: Vec<u16> = text.encode_utf16().collect();
            let matches = if flags.contains('u') {
                expression.find_from_utf16(&units, 0).next().is_some()
            } else {
                expression.find_from_ucs2(&units, 0).next().is_some()
            };
            prop_assert!(may_match || !matches, "/{source}/{flags} matches {text:?}");
        }
    }
}

/// Each a text that the expression does not match, though it comes near.
#[test]
fn common_expressions_are_told_apart() {
    for (source, flags, text) in [
        (r"\bconsole\.log\(", "", "consolelog( console_log( xconsole.log("),
        (r"^import .* from", "", "  import a from b"),
        (r"TODO|FIXME", "i", "to do, fix me"),
        (r";$", "", "a; b"),
        (r"\d{3}-\d{4}", "", "12-3456 123-456"),
        (r"[^\x00-\x7f]", "", "plain ASCII"),
        (r"<[a-z]+>", "u", "<A> < b>"),
    ] {
        let filter = Prefilter::new(source, flags).expect(source);
        assert!(!filter.may_match(&mut filter.start(), text), "/{source}/{flags}: {text}");
    }
}

#[test]
fn what_cannot_be_told_is_left_to_the_engine() {
    let nested = "(".repeat(2_000) + &")".repeat(2_000);
    let large = "(a|b)*a".to_owned() + &"(a|b)".repeat(25);
    for (source, flags) in [
        ("a", "g"),
        ("a", "y"),
        ("[a--b]", "v"),
        ("(?i:a)", ""),
        ("(?=a)", ""),
        ("a*", ""),
        ("a(", ""),
        (nested.as_str(), ""),
        (large.as_str(), ""),
    ] {
        assert!(Prefilter::new(source, flags).is_none(), "/{source}/{flags}");
    }
}
