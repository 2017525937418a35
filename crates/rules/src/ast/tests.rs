//! Runs the cases of `fixtures/rules/ast.json`, and tests the limits of the search.

use super::*;
use serde::Deserialize;

/// A case: a pattern, a text, and the part of the text that the first hit covers.
#[derive(Deserialize)]
struct Case {
    name: String,
    language: String,
    pattern: String,
    text: String,
    hit: Option<String>,
}

/// Compiles one pattern that has no problem in some language.
fn compile(pattern: &str) -> AstPatterns {
    let (patterns, problems) = AstPatterns::compile(&[pattern.to_owned()]);
    assert_eq!(problems, [], "{pattern}");
    patterns
}

fn strings(patterns: &[&str]) -> Vec<String> {
    patterns.iter().map(|pattern| (*pattern).to_owned()).collect()
}

#[test]
fn cases_hit_where_they_say() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("../../../../fixtures/rules/ast.json")).expect("cases");
    let mut wrong = Vec::new();
    for case in &cases {
        let language = AstLanguage::from_info_string(&case.language).expect("a language");
        let patterns = compile(&case.pattern);
        if let Some(problem) = patterns.problem(0, language) {
            wrong.push(format!("{}: {problem}", case.name));
        }
        let found = patterns.find(language, &case.text, DEFAULT_BUDGET).expect("no limit");
        let found = found.map(|hit| case.text[hit.range].to_owned());
        if found != case.hit {
            wrong.push(format!("{}: {found:?} instead of {:?}", case.name, case.hit));
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn paths_and_info_strings_name_languages() {
    for (path, language) in [
        ("a.ts", Some(AstLanguage::TypeScript)),
        ("a.d.ts", Some(AstLanguage::TypeScript)),
        ("src/a.mts", Some(AstLanguage::TypeScript)),
        ("src\\a.cts", Some(AstLanguage::TypeScript)),
        ("A.TSX", Some(AstLanguage::Tsx)),
        ("a.jsx", Some(AstLanguage::JavaScript)),
        ("a.mjs", Some(AstLanguage::JavaScript)),
        ("a.cjs", Some(AstLanguage::JavaScript)),
        ("/p/a.rs", Some(AstLanguage::Rust)),
        ("a.pyi", Some(AstLanguage::Python)),
        ("a.go", Some(AstLanguage::Go)),
        ("a.go/README", None),
        (".ts", None),
        ("Makefile", None),
        ("", None),
    ] {
        assert_eq!(AstLanguage::from_path(path), language, "{path}");
    }
    for (info, language) in [
        ("ts", Some(AstLanguage::TypeScript)),
        ("TypeScript title=\"a.ts\"", Some(AstLanguage::TypeScript)),
        ("tsx{1,3}", Some(AstLanguage::Tsx)),
        ("javascript", Some(AstLanguage::JavaScript)),
        (" rust,ignore", Some(AstLanguage::Rust)),
        ("py", Some(AstLanguage::Python)),
        ("golang", Some(AstLanguage::Go)),
        ("text", None),
        ("", None),
    ] {
        assert_eq!(AstLanguage::from_info_string(info), language, "{info}");
    }
}

#[test]
fn one_walk_finds_each_pattern_once_and_skips_those_not_wanted() {
    let (patterns, problems) = AstPatterns::compile(&strings(&["f($A)", "g($A)", "h($A)", "f(1)"]));
    assert_eq!(problems, []);
    assert_eq!(patterns.len(), 4);
    let scan = patterns.find_each(AstLanguage::JavaScript, "g(f(1)); f(2); h(3)", DEFAULT_BUDGET, |index| index != 2);
    assert_eq!(scan.limit, None);
    let hits: Vec<_> = scan.hits.into_iter().map(|hit| (hit.pattern, hit.range)).collect();
    assert_eq!(hits, [(1, 0..7), (0, 2..6), (3, 2..6)]);
    assert_eq!(patterns.find_each(AstLanguage::Rust, "fn a() {}", DEFAULT_BUDGET, |_| true), AstScan::default());
}

#[test]
fn patterns_that_fit_no_language_are_reported() {
    let patterns = strings(&["f($A)", "", "a; b; c", "$$$A", "f((", "$X.unwrap()"]);
    let (compiled, problems) = AstPatterns::compile(&patterns);
    let told: Vec<_> = problems.iter().map(|problem| (problem.index, problem.unusable)).collect();
    assert_eq!(told, [(1, true), (2, true), (3, true), (4, false)], "{problems:#?}");
    assert!(problems[0].message.contains("no code"), "{}", problems[0]);
    assert!(problems[1].message.contains("more than one"), "{}", problems[1]);
    assert!(problems[2].message.contains("`$NAME`"), "{}", problems[2]);
    assert!(problems[3].message.contains("syntax error"), "{}", problems[3]);
    for language in AstLanguage::ALL {
        assert_eq!(compiled.problem(0, language), None);
        assert_eq!(compiled.problem(5, language), None, "{language}");
        assert!(compiled.problem(1, language).is_some());
    }
}

#[test]
fn problems_are_told_by_language() {
    let patterns = compile("$X is not None");
    assert_eq!(patterns.problem(0, AstLanguage::Python), None);
    assert!(patterns.problem(0, AstLanguage::Rust).is_some());
    let patterns = compile("if $E != nil { return $E }");
    assert_eq!(patterns.problem(0, AstLanguage::Go), None);
    assert!(patterns.problem(0, AstLanguage::TypeScript).is_some());
}

#[test]
fn long_and_deep_patterns_are_refused() {
    let deep = format!("f({}1{})", "(".repeat(MAX_PATTERN_DEPTH), ")".repeat(MAX_PATTERN_DEPTH));
    let long = format!("f('{}')", "x".repeat(MAX_PATTERN));
    let (_, problems) = AstPatterns::compile(&[deep, long]);
    assert_eq!(problems.len(), 2);
    assert!(problems.iter().all(|problem| problem.unusable));
    assert!(problems[0].message.contains("nested deeper"), "{}", problems[0].message);
    assert!(problems[1].message.contains("longer than"), "{}", problems[1].message);
}

#[test]
fn a_budget_ends_the_search() {
    let patterns = compile("console.debug($$$A)");
    let text = format!("{}console.debug(1);", "f(1, 2);\n".repeat(1_000));
    assert_eq!(patterns.find(AstLanguage::TypeScript, &text, 1_000), Err(AstLimit::OutOfBudget));
    assert!(patterns.find(AstLanguage::TypeScript, &text, DEFAULT_BUDGET).expect("within the budget").is_some());

    // A text without the names of the pattern costs no step, whatever its size.
    let other = "f(1, 2);\n".repeat(MAX_TEXT);
    assert_eq!(patterns.find(AstLanguage::TypeScript, &other, 0), Ok(None));
}

#[test]
fn a_hit_before_the_limit_counts() {
    let (patterns, _) = AstPatterns::compile(&strings(&["first()", "last()"]));
    let text = format!("first();\n{}last();", "f(1, 2);\n".repeat(10_000));
    let whole = |budget| patterns.find_each(AstLanguage::JavaScript, &text, budget, |_| true);
    // Parsing takes more than half of the steps, and ends before the first node is visited.
    let budget = (1..).map(|tenths| tenths * 10_000).find(|budget| !whole(*budget).hits.is_empty()).expect("enough");
    let scan = whole(budget);
    assert_eq!(scan.hits, [AstHit { pattern: 0, range: 0..7 }]);
    assert_eq!(scan.limit, Some(AstLimit::OutOfBudget));
    assert_eq!(whole(DEFAULT_BUDGET).hits.len(), 2);
}

#[test]
fn a_large_text_is_not_parsed() {
    let patterns = compile("f($A)");
    let text = "f(1);".repeat(MAX_TEXT / 5 + 1);
    assert_eq!(patterns.find(AstLanguage::Go, &text, DEFAULT_BUDGET), Err(AstLimit::TextTooLarge));
}

/// Deep texts fit in a thread's default stack; matching them may exhaust the budget.
#[test]
fn deeply_nested_text_overflows_no_stack() {
    let (patterns, _) = AstPatterns::compile(&strings(&["missing($A)", "$X == $X", "(($A))", "f($$$A, $B)", "$A"]));
    let shapes = [
        (100_000, "(", "1", ")"),
        (100_000, "f(", "x == x", ")"),
        (10_000, "(", "", ""),
        (10_000, "[", "", "]"),
        (10_000, "{", "", "}"),
        (10_000, "-", "1", ""),
        (10_000, "a.", "a", ""),
        (10_000, "`${", "", "}`"),
        (2_000, "a ? ", "b", " : c"),
        (2_000, "<a>", "", "</a>"),
        (2_000, "if x:\n ", "", ""),
    ];
    for language in AstLanguage::ALL {
        for (depth, open, inner, close) in shapes {
            let text = [&open.repeat(depth), inner, &close.repeat(depth)].concat();
            // Checks only that the search terminates.
            patterns.find_each(language, &text, DEFAULT_BUDGET, |_| true);
        }
    }
}

#[test]
fn the_default_budget_is_twice_what_the_largest_text_needs() {
    let unit = include_str!("../../benches/ast.ts.txt");
    let text = unit.repeat(50_000 / unit.len());
    let patterns = compile("$X == $Y");
    let needed = (1..)
        .map(|tenths| tenths * 5_000)
        .find(|budget| patterns.find(AstLanguage::TypeScript, &text, *budget) == Ok(None));
    let needed = needed.expect("a sufficient budget exists") * (MAX_TEXT / text.len() + 1) as u64;
    assert!((2 * needed..4 * needed).contains(&DEFAULT_BUDGET), "{needed}");
}

#[test]
fn subtrees_are_compared_to_a_depth() {
    let patterns = compile("$X == $X");
    let nested = |levels: usize, inner: &str| format!("{}{inner}{}", "f(".repeat(levels), ")".repeat(levels));
    let text = format!("{} == {}", nested(50, "1"), nested(50, "1"));
    assert!(patterns.find(AstLanguage::JavaScript, &text, DEFAULT_BUDGET).expect("shallow").is_some());
    let text = format!("{} == {}", nested(50, "1"), nested(50, "2"));
    assert_eq!(patterns.find(AstLanguage::JavaScript, &text, DEFAULT_BUDGET), Ok(None));
    let deep = format!("{} == {}", nested(10_000, "1"), nested(10_000, "1"));
    assert_eq!(patterns.find(AstLanguage::JavaScript, &deep, DEFAULT_BUDGET), Err(AstLimit::TooDeep));
    // The rest of the text is searched.
    let hit = patterns.find(AstLanguage::JavaScript, &format!("{deep};\na == a"), DEFAULT_BUDGET);
    assert_eq!(hit.expect("a hit").map(|hit| hit.range.len()), Some(6));
}

#[test]
fn ellipses_over_a_long_list_end_by_the_budget() {
    let patterns = compile("f($$$A, b, $$$C, d)");
    let text = format!("f({}b, {}c)", "a, ".repeat(30_000), "a, ".repeat(30_000));
    assert_eq!(patterns.find(AstLanguage::Python, &format!("{text}\nd\n"), DEFAULT_BUDGET), Err(AstLimit::OutOfBudget));
    assert!(patterns.find(AstLanguage::Python, "f(1, b, 2, d)", DEFAULT_BUDGET).expect("short").is_some());
}

#[test]
fn ranges_are_of_characters_of_the_text() {
    let (patterns, _) = AstPatterns::compile(&strings(&["$A"]));
    for language in AstLanguage::ALL {
        for text in ["ß", "µ(", "\u{feff}x", "\u{2028}", "a\0b", "😄.y\n", " ", ""] {
            for hit in patterns.find_each(language, text, DEFAULT_BUDGET, |_| true).hits {
                assert!(text.get(hit.range.clone()).is_some(), "{language}: {text:?} at {:?}", hit.range);
            }
        }
    }
}

#[test]
fn a_mistake_inside_of_a_whole_declaration_is_a_doubt() {
    for (pattern, code) in [
        ("func $F[$$$TP]($V $T) *$T { return &$V }", "func ptr[T any](v T) *T { return &v }"),
        (
            "func $F($B *testing.B) { $$$PRE for $I := 0; $I < $B.N; $I++ { $$$BODY } $$$POST }",
            "func BenchmarkX(b *testing.B) { x := 1; for i := 0; i < b.N; i++ { f(x) }; g() }",
        ),
    ] {
        let (patterns, problems) = AstPatterns::compile(&[pattern.to_owned()]);
        assert!(problems.iter().all(|problem| problem.is_doubt), "{problems:?}");
        assert!(patterns.find(AstLanguage::Go, code, DEFAULT_BUDGET).expect("no limit").is_some(), "{pattern}");
    }
    for broken in ["console.log(", "if (", "function f() {", "foo($A))", "console.log($A", "fn $F() -> {"] {
        let (_, problems) = AstPatterns::compile(&[broken.to_owned()]);
        assert!(problems.len() == 1 && !problems[0].is_doubt, "{broken}: {problems:?}");
    }
}
