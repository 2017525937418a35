//! Tests the matching of many patterns in one text: reported matches, and the effect of limits.

use pijs_matcher::{Hit, Limits, Pattern, PatternSet, Reporting};

fn set(sources: &[(&str, &str)], limits: Limits) -> PatternSet {
    let pattern = |&(source, flags): &(&str, &str)| Pattern::parse(source, flags).expect(source);
    PatternSet::new(&sources.iter().map(pattern).collect::<Vec<_>>(), limits)
}

/// Returns the patterns that hit in each piece, with the end of the match and whether it is settled.
fn read(set: &PatternSet, reporting: Reporting, pieces: &[&str]) -> Vec<Vec<(usize, u64, bool)>> {
    let mut scan = set.begin();
    set.ids().for_each(|id| scan.report(id, reporting));
    let mut read = |piece: &&str| {
        let mut hits = Vec::new();
        scan.read(piece, |Hit { offset, pattern, is_settled }| hits.push((pattern.index(), offset, is_settled)));
        hits
    };
    pieces.iter().map(&mut read).collect()
}

#[test]
fn a_match_is_settled_once_nothing_can_undo_it() {
    let set = set(&[("ab", ""), (r"ab\b", ""), ("ab$", ""), ("ab(?!c)", ""), ("ab(?=c)", "")], Limits::default());
    let hits = read(&set, Reporting::Once, &["xa", "b", "c ab", " "]);
    assert_eq!(hits[0], []);
    assert_eq!(hits[1], [(0, 3, true), (1, 3, false), (2, 3, false), (3, 3, false)]);
    assert_eq!(hits[2], [(4, 4, true), (1, 7, false), (2, 7, false), (3, 7, false)]);
    // `(?!c)` reads the character that differs.
    assert_eq!(hits[3], [(1, 7, true), (3, 8, true)]);
}

#[test]
fn a_pattern_reports_by_its_mode() {
    let set = set(&[("a", ""), ("b", "")], Limits::default());
    assert_eq!(read(&set, Reporting::Once, &["aba", "ab"]), [vec![(0, 1, true), (1, 2, true)], vec![]]);
    assert_eq!(read(&set, Reporting::Never, &["aba"]), [vec![]]);
    let every = read(&set, Reporting::Every, &["aba", "ab"]);
    assert_eq!(every, [vec![(0, 1, true), (1, 2, true), (0, 3, true)], vec![(0, 4, true), (1, 5, true)]]);
}

#[test]
fn all_look_aheads_have_to_match() {
    let set = set(&[(r"(?=[\s\S]*foo)(?=[\s\S]*bar$)", "")], Limits::default());
    let hits = read(&set, Reporting::Once, &["bar foo ", "bar", "s", " bar"]);
    assert_eq!(hits, [vec![], vec![(0, 11, false)], vec![], vec![(0, 16, false)]]);
}

#[test]
fn a_long_piece_is_read_like_short_ones() {
    let set = set(&[("é+😀", "u"), ("z", "")], Limits::default());
    let text = format!("{}😀{}z", "é".repeat(3_000), "x".repeat(5_000));
    assert_eq!(read(&set, Reporting::Once, &[&text]), [[(0, 6_004, true), (1, 11_005, true)]]);
}

#[test]
fn a_count_may_have_any_number_of_digits() {
    let sources =
        [("ab{99999999999999999999}", ""), ("ab{1,00000000000000000000002}$", ""), ("[{99999999999999999999}]b", "")];
    let set = set(&sources, Limits::default());
    assert_eq!(read(&set, Reporting::Once, &["9b abb"]), [[(2, 2, true), (1, 6, false)]]);
    assert!(Pattern::parse("a{99999999999999999999,1}", "").is_err());
}

/// Returns text that leads an automaton for `a[ab]{n}` to a new state with almost every character.
fn noise(length: usize) -> String {
    let mut state = 7_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if state >> 31 == 0 { 'a' } else { 'b' }
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn a_pattern_with_too_many_states_is_abandoned_alone() {
    let limits =
        Limits { scan_bytes: 256 << 10, computed_bytes: 1 << 20, computed_bytes_per_byte: 32, ..Limits::default() };
    let sources: Vec<(String, &str)> = (0..50)
        .map(|number| if number == 33 { ("a[ab]{24}c".to_owned(), "") } else { (format!("word{number}\\b"), "") })
        .collect();
    let sources: Vec<(&str, &str)> = sources.iter().map(|(source, flags)| (source.as_str(), *flags)).collect();
    let set = set(&sources, limits);
    let mut scan = set.begin();
    scan.read(&noise(200_000), |hit| panic!("{hit:?}"));
    assert!(scan.memory_usage() < 2 << 20, "{}", scan.memory_usage());
    let numbers = |ids: Vec<pijs_matcher::PatternId>| ids.into_iter().map(|id| id.index()).collect::<Vec<_>>();
    assert_eq!(numbers(scan.exhausted().collect()), [33]);
    assert_eq!(numbers(set.given_up()), [33]);
    // The other patterns are still matched in this text.
    let mut hits = Vec::new();
    scan.read("word32 word33 word34 ", |hit| hits.push(hit.pattern.index()));
    assert_eq!(hits, [32, 34]);
}

#[test]
fn an_automaton_is_replaced_without_a_match_being_lost_or_doubled() {
    let sources =
        [("a[ab]{24}c", ""), ("^x[ab]*y", ""), (r"x[ab]{0,6000}y\b", ""), ("ab", ""), ("(?=[^]*x)(?=[^]*y$)", "")];
    let small =
        Limits { scan_bytes: 64 << 10, computed_bytes: 64 << 10, computed_bytes_per_byte: 8, ..Limits::default() };
    let text = format!("x{}y {0}", noise(5_000));
    for size in [1, 100, usize::MAX] {
        for reporting in [Reporting::Once, Reporting::Every] {
            let pieces: Vec<&str> =
                text.as_bytes().chunks(size).map(|piece| std::str::from_utf8(piece).expect("it is ASCII")).collect();
            let (exploding, plain) = (set(&sources, small), set(&sources, Limits::default()));
            let without_first = |set: &PatternSet| {
                let hits = read(set, reporting, &pieces);
                let others =
                    |hits: Vec<(usize, u64, bool)>| hits.into_iter().filter(|hit| hit.0 != 0).collect::<Vec<_>>();
                hits.into_iter().map(others).collect::<Vec<_>>()
            };
            assert!(without_first(&exploding) == without_first(&plain), "{reporting:?} in pieces of {size}");
            assert_eq!(exploding.given_up().iter().map(|id| id.index()).collect::<Vec<_>>(), [0]);
        }
    }
}

#[test]
fn many_plain_patterns_are_read_to_the_end_of_a_long_text() {
    let sources: Vec<String> = (0..9_990).map(|number| format!(r"\bword{number}\(")).collect();
    let sources: Vec<(&str, &str)> = sources.iter().map(|source| (source.as_str(), "")).collect();
    let set = set(&sources, Limits::default());
    let mut scan = set.begin();
    for number in 0..4_000 {
        scan.read(&format!("word{} ", number * 7 % 9_990), |hit| panic!("{hit:?}"));
    }
    let mut hits = Vec::new();
    scan.read("word9876(", |hit| hits.push(hit.pattern.index()));
    assert_eq!((hits, scan.is_exhausted()), (vec![9_876], false));
}

#[test]
fn an_oversized_pattern_is_abandoned_alone() {
    let limits = Limits { automaton_bytes: 16 << 10, ..Limits::default() };
    let set = set(&[("small", ""), (r"[^\p{L}]{9}\p{L}{9}", "u"), ("also small", "")], limits);
    assert_eq!(set.given_up().iter().map(|id| id.index()).collect::<Vec<_>>(), [1]);
    assert_eq!(read(&set, Reporting::Once, &["also small"]), [[(0, 10, true), (2, 10, true)]]);
}

#[test]
fn patterns_are_abandoned_only_beyond_the_limit() {
    let sources: Vec<String> = (0..600).map(|number| format!("forbidden_{number}\\s*=")).collect();
    let sources: Vec<(&str, &str)> = sources.iter().map(|source| (source.as_str(), "")).collect();
    let all = set(&sources, Limits::default());
    assert_eq!((all.given_up().len(), all.automata()), (0, 1));
    let limits = Limits { automaton_bytes: all.memory_usage() / 2, ..Limits::default() };
    let half = set(&sources, limits);
    assert!(half.memory_usage() <= limits.automaton_bytes, "{}", half.memory_usage());
    assert!((200..400).contains(&half.given_up().len()), "{}", half.given_up().len());
}

#[test]
fn forgetting_states_loses_nothing() {
    // The cache is cleared often, also at the ends of pieces.
    let limits = Limits { scan_bytes: 16 << 10, computed_bytes: u64::MAX / 2, ..Limits::default() };
    let sources = [("a[ab]{9}c", ""), (r"b[ab]{8}\b", ""), ("ba{11}", "")];
    let (small, large) = (set(&sources, limits), set(&sources, Limits { scan_bytes: 64 << 20, ..limits }));
    let text = noise(20_000).replace("baba", "bac ");
    for size in [1, 7, 8, 1_000] {
        let pieces: Vec<&str> = (0..text.len()).step_by(size).map(|at| &text[at..text.len().min(at + size)]).collect();
        assert!(read(&small, Reporting::Every, &pieces) == read(&large, Reporting::Every, &pieces), "pieces of {size}");
    }
}

#[test]
fn a_piece_allocates_nothing_once_its_states_are_there() {
    let sources = [(r"\bTODO\b", "i"), (r"^\s*let x", "m"), (r"(?<!\w)console\.log\(", ""), ("ſ", "iu")];
    let set = set(&sources, Limits::default());
    let text = "let x = console; // todos grüße\n  x.log()😀\r";
    let mut scan = set.begin();
    scan.read(text, |_| {});
    scan.read(text, |_| {});
    let allocations = allocation_counter::measure(|| {
        for piece in text.split_inclusive(' ') {
            scan.read(piece, |_| {});
        }
    });
    // The ends of these pieces need additional states.
    let again = allocation_counter::measure(|| {
        for piece in text.split_inclusive(' ') {
            scan.read(piece, |_| {});
        }
    });
    assert_eq!(again.count_total, 0, "{allocations:?}");
}

#[test]
fn a_scan_begins_a_new_text_as_a_new_one_does() {
    let set = set(&[("a+b", ""), (r"\bTODO\b", ""), ("^x", ""), ("(?!y)z$", "m")], Limits::default());
    let hits = |scan: &mut pijs_matcher::Scan, pieces: &[&str]| {
        let mut hits = Vec::new();
        pieces.iter().for_each(|piece| scan.read(piece, |hit| hits.push(hit)));
        hits
    };
    let texts: [&[&str]; 4] = [&["xaa", "b TODO", " z"], &["TO", "DOS"], &["b"], &["x", "ab TODO\nz"]];
    let mut kept = set.begin();
    for pieces in texts.iter().cycle().take(9) {
        assert_eq!(hits(&mut kept, pieces), hits(&mut set.begin(), pieces), "{pieces:?}");
        for pattern in hits(&mut set.begin(), pieces) {
            kept.report(pattern.pattern, Reporting::Never);
        }
        kept.restart();
        assert_eq!(kept.offset(), 0);
    }
}

#[test]
fn a_new_text_allocates_nothing_once_its_states_are_there() {
    let set = set(&[("a+b", ""), (r"\bTODO\b", "")], Limits::default());
    let mut scan = set.begin();
    let mut read = || {
        scan.read("an aab and a TODO.", |_| {});
        scan.restart();
    };
    read();
    assert_eq!(allocation_counter::measure(|| (0..100).for_each(|_| read())).count_total, 0);
}
