//! Tests that a prefilter excludes near misses, and is not built for expressions that it could never exclude.

use pijs_matcher::Prefilter;

/// Checks texts that nearly match their expressions.
#[test]
fn near_misses_of_common_expressions_are_excluded() {
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
fn expressions_without_a_useful_automaton_have_no_prefilter() {
    let nested = "(".repeat(2_000) + &")".repeat(2_000);
    let large = "(a|b)*a".to_owned() + &"(a|b)".repeat(25);
    for (source, flags) in [("a", "g"), ("a", "y"), ("a*", ""), ("a(", ""), (nested.as_str(), ""), (large.as_str(), "")]
    {
        assert!(Prefilter::new(source, flags).is_none(), "/{source}/{flags}");
    }
}
