//! Tests of the sanitiser, by example and as properties.

use super::*;
use proptest::prelude::*;

#[test]
fn supported_sequences_stay_and_others_are_removed() {
    for (dirty, clean) in [
        ("plain text\nand a second line\t.", "plain text\nand a second line\t."),
        ("Grüße, 你好, e\u{301}, 👨\u{200d}👩\u{200d}👧", "Grüße, 你好, e\u{301}, 👨\u{200d}👩\u{200d}👧"),
        ("a\u{1b}[2J\u{1b}[Hb", "ab"),
        ("a\u{1b}]8;;http://evil.example\u{1b}\\link\u{1b}]8;;\u{1b}\\b", "alinkb"),
        ("a\u{1b}]52;c;aGVsbG8=\u{7}b", "ab"),
        ("a\u{1b}Pq#0;2;0;0;0\u{1b}\\b", "ab"),
        ("a\u{1b}_app\u{1b}\\\u{1b}^pm\u{1b}\\\u{1b}Xsos\u{1b}\\b", "ab"),
        ("a\u{1b}7\u{1b}[s\u{1b}[?1049h\u{1b}(0b", "ab"),
        ("a\u{9b}2Jb\u{9d}0;t\u{9c}c", "a2Jb0;tc"),
        ("over\rwritten\u{8}\u{7f}\u{b}\u{c}\0", "overwritten"),
        ("a\u{202e}b\u{2066}c\u{2069}\u{200f}d", "abcd"),
        ("a\u{e0041}\u{e007f}b\u{200b}c\u{feff}d\u{2060}e\u{ad}f", "abcdef"),
        ("a\u{200d}b", "ab"),
        ("\u{1b}[31;5;8mred\u{1b}[0m", "\u{1b}[31mred\u{1b}[0m"),
        ("\u{1b}[38;2;1;2;3mx\u{1b}[m", "\u{1b}[38;2;1;2;3mx\u{1b}[0m"),
        ("\u{1b}[38:2::1:2:3mx\u{1b}[48;5;7my\u{1b}[0m", "\u{1b}[38;2;1;2;3mx\u{1b}[48;5;7my\u{1b}[0m"),
        ("\u{1b}[38;5;999mx\u{1b}[58;2;1;2;3my", "xy"),
        ("open \u{1b}[1mbold", "open \u{1b}[1mbold\u{1b}[0m"),
        ("cut off \u{1b}[3", "cut off "),
        ("cut off \u{1b}]0;title", "cut off "),
    ] {
        assert_eq!(text(dirty), clean, "{dirty:?}");
    }
}

#[test]
fn marks_on_one_character_are_few() {
    let zalgo = format!("e{}f", "\u{301}".repeat(500));
    assert_eq!(text(&zalgo), format!("e{}f", "\u{301}".repeat(4)));
}

#[test]
fn width_and_lines_are_clamped() {
    let limits = Limits { columns: 5, lines: 2, styles: true };
    assert_eq!(within("12345678\nab\ncd\nef", limits), "12345…\nab\n[2 more lines]\n");
    assert_eq!(within("你好你好", limits), "你好…");
    assert_eq!(within("title\nmore", Limits::columns(80)), "title\n");
    let long = "x".repeat(100_000);
    assert!(text(&long).chars().count() <= 4_001);
    assert!(text(&"\n".repeat(100_000)).lines().count() <= 1_001);
}

#[test]
fn one_line_is_one_line() {
    assert_eq!(line("a\nb\tc\r\nd\n"), "a b c d");
    assert_eq!(plain("\u{1b}[31mred\u{1b}[0m"), "red");
}

#[test]
fn hidden_characters_in_source_are_found() {
    let source = "const a\u{200b}b = '\u{202e}x'; // 👨\u{200d}👩 \u{e0061}";
    let named: Vec<String> = hidden(source).map(|found| found.to_string()).collect();
    assert_eq!(named, ["U+200B", "U+202E", "U+E0061"]);
    assert_eq!(hidden("\u{feff}ordinary").count(), 0);
}

#[test]
fn text_is_put_into_columns() {
    use super::layout::{boundaries, clamp, fit, slice, width, wrap};
    for (line, columns) in
        [("", 0), ("abc", 3), ("你好", 4), ("e\u{301}", 1), ("\u{1b}[31mab\u{1b}[0m", 2), ("👨\u{200d}👩", 2)]
    {
        assert_eq!(width(line), columns, "{line:?}");
    }
    assert_eq!(boundaries("ae\u{301}你"), [0, 1, 4, 7]);
    for (line, columns, clamped) in [
        ("12345", 5, "12345"),
        ("123456", 5, "1234…"),
        ("a\tb", 9, "a   b"),
        ("one\ntwo", 9, "one"),
        ("\u{1b}[31m12345", 5, "\u{1b}[31m12345\u{1b}[0m"),
        ("\u{1b}[2Jx\u{1b}_pi:c\u{1b}\\y", 5, "xy"),
        ("你好吗", 5, "你好…"),
    ] {
        assert_eq!(clamp(line, columns), clamped, "{line:?}");
    }
    for (line, from, to, part) in [
        ("abcdef", 2, 4, "cd"),
        ("a\u{1b}[31mbc\u{1b}[0md", 2, 3, "\u{1b}[31mc\u{1b}[0m"),
        ("a你b", 0, 2, "a "),
        ("a你b", 2, 4, " b"),
        ("ab", 5, 9, ""),
    ] {
        assert_eq!(slice(line, from, to), part, "{line:?} {from}..{to}");
    }
    assert_eq!(fit("\u{1b}[31mabc", 2), "\u{1b}[31mab\u{1b}[0m");
    assert_eq!(fit("ab", 4), "ab  ");
    for (text, columns, lines) in [
        ("one two three", 8, vec!["one two", "three"]),
        ("abcdefgh", 3, vec!["abc", "def", "gh"]),
        ("a\n\nb", 8, vec!["a", "", "b"]),
        ("\u{1b}[31mred\u{1b}[0m", 8, vec!["red"]),
        ("你好吗", 4, vec!["你好", "吗"]),
        ("", 4, vec![""]),
    ] {
        assert_eq!(wrap(text, columns), lines, "{text:?}");
    }
}

/// Generates hostile fragments in any order.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<String>(),
        "[ -~\n\t]{0,20}",
        "\u{1b}[\\[\\]P_^X()#%][0-9;:?<=>]{0,12}[@-~]?",
        Just("\u{1b}".to_owned()),
        Just("\u{9b}31m".to_owned()),
        Just("\u{1b}\\".to_owned()),
        Just("👨\u{200d}👩".to_owned()),
        "[\u{200b}-\u{200f}\u{202a}-\u{202e}\u{e0000}-\u{e007f}]{0,4}",
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// Removes the style sequences that this crate writes.
fn without_styles(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        out.push_str(&rest[..at]);
        let sequence = &rest[at..];
        let end = sequence.find('m').expect("every sequence that stays is a whole style");
        assert!(sequence[..end].starts_with("\u{1b}["), "{sequence:?}");
        assert!(sequence[2..end].bytes().all(|b| b.is_ascii_digit() || b == b';'), "{sequence:?}");
        rest = &sequence[end + 1..];
    }
    out.push_str(rest);
    out
}

proptest! {
    #[test]
    fn no_control_sequence_is_left(dirty in hostile()) {
        let clean = without_styles(&text(&dirty));
        for c in clean.chars() {
            prop_assert!(!c.is_control() || c == '\n' || c == '\t', "{c:?} in {clean:?}");
        }
        prop_assert_eq!(hidden(&clean).filter(|found| found.character != '\u{200d}').count(), 0);
    }

    #[test]
    fn sanitising_is_idempotent(dirty in hostile()) {
        let once = text(&dirty);
        prop_assert_eq!(text(&once), once);
    }

    #[test]
    fn split_text_is_sanitised_as_the_whole(dirty in hostile(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        let mut places: Vec<usize> = dirty.char_indices().map(|(at, _)| at).chain([dirty.len()]).collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| *cut.get(&places)).collect();
        cuts.extend([0, dirty.len()]);
        cuts.sort_unstable();
        places.clear();
        let mut out = String::new();
        let mut stream = Stream::new(Limits::default());
        for pair in cuts.windows(2) {
            stream.push(&dirty[pair[0]..pair[1]], &mut out);
        }
        stream.finish(&mut out);
        prop_assert_eq!(out, text(&dirty));
    }

    #[test]
    fn ordinary_text_stays_as_it_is(ordinary in "[ -~äöü你好\n\t]{0,200}") {
        prop_assert_eq!(text(&ordinary), ordinary);
    }

    #[test]
    fn clamped_and_wrapped_text_fits(dirty in hostile(), columns in 2usize..40) {
        prop_assert!(layout::width(&layout::clamp(&dirty, columns)) <= columns);
        for line in layout::wrap(&dirty, columns) {
            prop_assert!(layout::width(&line) <= columns, "{line:?}");
        }
        let clean = layout::clamp(&dirty, 1_000);
        prop_assert_eq!(layout::width(&layout::fit(&clean, columns)), columns);
    }

    #[test]
    fn boundaries_are_found_from_anywhere(text in "[a\n\u{301}你\u{200d}👨🏽🇯🇵❤\u{fe0f}]{0,12}", columns in 0usize..20) {
        let boundaries = layout::boundaries(&text);
        for (at, _) in text.char_indices().chain([(text.len(), ' ')]) {
            let before = boundaries.iter().rev().copied().find(|other| *other < at).unwrap_or(0);
            prop_assert_eq!(layout::boundary_before(&text, at), before, "{:?} {}", &text, at);
        }
        for at in &boundaries {
            let behind = boundaries.iter().copied().find(|other| other > at).unwrap_or(text.len());
            prop_assert_eq!(layout::boundary_behind(&text, *at), behind, "{:?} {}", &text, at);
        }
        let at = boundaries.iter().rev().copied().find(|at| layout::width(&text[..*at]) <= columns).unwrap_or(0);
        prop_assert_eq!(layout::boundary_at(&text, columns), at, "{:?}", &text);
    }

    #[test]
    fn no_line_is_wider_than_allowed(dirty in hostile(), columns in 1usize..40) {
        let clean = within(&dirty.replace('\t', " "), Limits { columns, lines: 50, styles: false });
        for line in clean.lines().filter(|line| !line.ends_with("more lines]")) {
            let width: usize = line.chars().filter_map(unicode_width::UnicodeWidthChar::width).sum();
            prop_assert!(width <= columns + 1, "{width} in {line:?}");
        }
    }
}

#[test]
fn grapheme_clusters_have_their_width() {
    for (text, columns) in [
        ("👍🏽", 2),
        ("👨\u{200d}👩\u{200d}👧", 2),
        ("🇯🇵🇩🇪", 4),
        ("❤\u{fe0f}", 2),
        ("❤", 1),
        ("e\u{301}", 1),
        ("한글", 4),
        ("🇯x", 2),
    ] {
        assert_eq!(layout::width(text), columns, "{text}");
        assert_eq!(layout::clamp(text, columns), text);
    }
    assert_eq!(layout::boundaries("🇯🇵🇩🇪").len(), 3);
    assert_eq!(layout::clamp("\u{1b}[31m👍🏽👍🏽", 3), "\u{1b}[31m👍🏽\u{1b}[0m…");
}

/// Repeated slicing and joining does not accumulate style sequences.
#[test]
fn styles_do_not_accumulate() {
    use super::layout::{clamp, fit, slice, wrap_styled};
    let flood: String = (0..10_000).map(|n| format!("\u{1b}[{}m", 31 + n % 6)).collect();
    let mut line = clamp(&format!("{flood}ab{flood}cd{flood}"), 80);
    assert!(line.len() < 200, "{}", line.len());
    for _ in 0..64 {
        line = format!("{}\u{1b}[0m{}\u{1b}[0m{}", slice(&line, 0, 40), fit("\u{1b}[7mx", 1), slice(&line, 41, 80));
        assert!(line.len() < 10_000, "{}", line.len());
    }
    assert_eq!(slice("\u{1b}[1;31ma\u{1b}[32m\u{1b}[22m\u{1b}[33mb", 1, 2), "\u{1b}[22m\u{1b}[33mb");
    assert_eq!(slice("a\u{1b}[38;5;1m\u{1b}[0m\u{1b}[48;2;38;1;0mb", 0, 2), "a\u{1b}[0m\u{1b}[48;2;38;1;0mb");
    let wrapped: usize = wrap_styled(&format!("{flood}x ").repeat(100), 2).iter().map(String::len).sum();
    assert!(wrapped < 20_000, "{wrapped}");
}

#[test]
fn invisible_characters_are_dropped_in_bounded_time() {
    for piece in ["\u{fe0f}", "\u{200d}\u{fe0f}", "\u{301}", "\u{200d}"] {
        let shown = line(&format!("❤{}", piece.repeat(10_000)));
        assert!(shown.len() < 64, "{piece:?}: {}", shown.len());
    }
}

#[test]
fn escaped_json_has_the_same_values() {
    assert_eq!(json(r#"{"a":"ä→🦀\n"}"#), r#"{"a":"ä→🦀\n"}"#);
    assert_eq!(json("\"a\u{9b}2J\u{202e}b\u{2028}\u{7f}\u{e0041}\""), r#""a\u009b2J\u202eb\u2028\u007f\udb40\udc41""#);
}
