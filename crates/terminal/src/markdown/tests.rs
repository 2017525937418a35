use super::*;
use crate::layout::{width, wrap_styled};
use proptest::prelude::*;

/// Returns lines without styles.
fn plain(text: &str, columns: usize) -> Vec<String> {
    lines(text, columns).iter().map(|line| crate::plain(line).trim_end().to_owned()).collect()
}

#[test]
fn blocks_stand_apart() {
    let text = "# One\nfirst\nsecond\n\n> said\n> twice\n\n---\nend";
    assert_eq!(plain(text, 12), ["One", "", "first", "second", "", "│ said", "│ twice", "", "────────────", "", "end"]);
}

#[test]
fn lists_nest_and_keep_their_indentation() {
    let text = "1. one two three\n2. two\n   - inner\n   - [x] done\n\n   more\n3.";
    let expected = ["1. one two", "   three", "2. two", "   - inner", "   - [x]", "     done", "   more", "3."];
    assert_eq!(plain(text, 12), expected);
}

#[test]
fn styles_are_ours_and_end_with_the_line() {
    let found = lines("a **b *c* d** `e` ~~f~~ [g](http://h) <b>", 80);
    assert_eq!(
        found,
        [concat!(
            "a \u{1b}[1mb \u{1b}[3mc\u{1b}[0m\u{1b}[1m d\u{1b}[0m \u{1b}[36me\u{1b}[0m \u{1b}[9mf\u{1b}[0m ",
            "\u{1b}[4;34mg\u{1b}[0m\u{1b}[2m (http://h)\u{1b}[0m <b>"
        )]
    );
    assert_eq!(
        lines("**one two**", 4),
        ["\u{1b}[1mone\u{1b}[0m", "\u{1b}[1mtwo\u{1b}[0m"],
        "a style that goes on is begun anew"
    );
}

#[test]
fn code_is_kept_as_it_is() {
    let found = plain("```rust\nfn  f() {}\n  *x*\n```\nafter\n\n```\nhalf", 40);
    assert_eq!(found, ["```rust", "  fn  f() {}", "    *x*", "```", "", "after", "", "```", "  half", "```"]);
}

#[test]
fn tables_fit() {
    let text = "|a|b|\n|-|-:|\n|one|2|\n|日本|30|";
    assert_eq!(
        plain(text, 40),
        ["┌──────┬────┐", "│ a    │  b │", "├──────┼────┤", "│ one  │  2 │", "│ 日本 │ 30 │", "└──────┴────┘"]
    );
    let narrow = plain("|long words here|b|\n|-|-|\n|x y z|1|", 17);
    assert!(narrow.iter().all(|line| width(line) <= 17), "{narrow:#?}");
    assert_eq!(plain("|a|b|\n|-|-|\n|1|2|", 8), ["a", "b", "1", "2"]);
}

#[test]
fn escape_sequences_of_the_text_are_removed() {
    let found = lines("a\u{1b}[31mred\u{1b}]0;x\u{7}\u{202e}\n\n```\n\u{1b}[2J\n```\n[x](\u{1b}[2J)", 40).concat();
    assert!(!found.contains("\u{1b}[31m") && !found.contains("\u{1b}[2J") && !found.contains('\u{7}'), "{found:?}");
}

#[test]
fn a_style_continues_on_wrapped_lines() {
    assert_eq!(
        wrap_styled("\u{1b}[31mred \u{1b}[1mboth\u{1b}[0m none", 5),
        ["\u{1b}[31mred\u{1b}[0m", "\u{1b}[31m\u{1b}[1mboth\u{1b}[0m", "none"]
    );
}

/// The cost of a text depends on its length, not on its nesting.
#[test]
fn deep_nesting_does_not_multiply_output() {
    const DEPTH: usize = 20_000;
    let nested = |open: &str, close: &str| format!("{}x{}", open.repeat(DEPTH), close.repeat(DEPTH));
    let texts = [
        format!("{}x", "> ".repeat(DEPTH)),
        format!("{}x", "- ".repeat(DEPTH)),
        format!("{}x", "1. > ".repeat(DEPTH)),
        nested("*a **b ", "** *"),
        nested("**", "**"),
        nested("~~a *b ", "*~~"),
        nested("![b", "](address)"),
        "> ![]()\n".repeat(DEPTH),
        (0..200).map(|depth| format!("{}{}x\n", "> ".repeat(depth), "- ".repeat(depth))).collect(),
    ];
    for text in texts {
        let bytes: usize = lines(&text, 80).iter().map(String::len).sum();
        assert!(bytes < 40 * text.len(), "{bytes} bytes of {}: {}", text.len(), &text[..20]);
    }
}

/// Empty cells and repeated link addresses do not multiply the output.
#[test]
fn empty_cells_and_references_do_not_multiply_output() {
    let texts = [
        format!("{}|\n{}|\n{}", "|a".repeat(2_000), "|-".repeat(2_000), "|\n".repeat(2_000)),
        format!("|a|\n|-|\n{}", "|\n".repeat(2_000)),
        format!("[a]: <{}>\n\n{}", "x".repeat(10_000), "[a] ".repeat(2_500)),
    ];
    for text in texts {
        let bytes: usize = lines(&text, 80).iter().map(String::len).sum();
        assert!(bytes < 200 * text.len(), "{bytes} bytes of {}: {}", text.len(), &text[..20]);
    }
}

proptest! {
    #[test]
    fn any_text_fits_the_columns(text in "[-a-z#>*_`|~\\[\\]()1. \n日\u{301}\u{1b}]{0,80}", columns in 1_usize..30) {
        for line in lines(&text, columns) {
            prop_assert!(width(&line) <= columns, "{line:?}");
            prop_assert!(!line.contains('\n'));
        }
    }
}
