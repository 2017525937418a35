//! Tests the notations. The expected results of globs were taken from picomatch 4 with rummy's options.

use super::*;

fn matches(pattern: &str, text: &str) -> bool {
    Pattern::parse(pattern).expect("the pattern is read").matches(text).expect("within the limits")
}

#[test]
fn globs_match_whole_paths() {
    let cases: serde_json::Value = serde_json::from_str(include_str!("../../../../fixtures/rummy/pattern/globs.json"))
        .expect("the fixture is JSON");
    let texts: Vec<&str> = cases["texts"].as_array().expect("texts").iter().filter_map(|one| one.as_str()).collect();
    let mut wrong = Vec::new();
    for (pattern, expected) in cases["patterns"].as_object().expect("patterns") {
        let expected: Vec<&str> = expected.as_array().expect("a list").iter().filter_map(|one| one.as_str()).collect();
        let glob = Glob::parse(pattern).expect("the glob is read");
        let found: Vec<&str> = texts.iter().copied().filter(|text| glob.matches(text)).collect();
        if found != expected {
            wrong.push(format!("{pattern}\n  found    {found:?}\n  expected {expected:?}"));
        }
        let is_within = |text: &&str| text.starts_with(glob.prefix());
        assert!(found.iter().all(is_within), "{pattern}: a match does not begin with {:?}", glob.prefix());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_pattern_s_form_tells_its_notation() {
    for (pattern, expected) in [
        ("s/a/b/", Notation::Sed),
        ("s/a/b/gi", Notation::Sed),
        ("/^(index|utils)/", Notation::RegExp),
        ("/a/gi", Notation::RegExp),
        ("/$.+/", Notation::RegExp),
        ("$.name", Notation::JsonPath),
        ("$[0].id", Notation::JsonPath),
        ("$..value", Notation::JsonPath),
        ("$.a/b", Notation::Literal),
        ("//item[@id='3']", Notation::XPath),
        ("/list/item[1]", Notation::XPath),
        ("/list/item[position()>1]", Notation::XPath),
        ("/a/child::name", Notation::XPath),
        ("/path/to/std::vector.html", Notation::Literal),
        ("**/*.test.*", Notation::Glob),
        ("known://*", Notation::Glob),
        ("c++", Notation::Literal),
        (":AI[]", Notation::Literal),
        (r"\d+", Notation::Literal),
        ("what?", Notation::Glob),
        ("a.*", Notation::Literal),
    ] {
        assert_eq!(notation(pattern), expected, "{pattern}");
    }
}

#[test]
fn regular_expressions_are_those_of_ecmascript() {
    assert!(matches("/^(index|utils)/", "index.js"));
    assert!(!matches("/^(index|utils)/", "readme.md"));
    assert!(matches(r"/\.(js|ts)$/", "test.ts"));
    assert!(matches(r"/(['\x22]).*\1/", "say 'x'"));
    assert!(matches("/foo(?!bar)/", "foobaz"));
    assert!(!matches("/foo(?!bar)/", "foobar"));
    assert!(!matches("/$.+/", "anything"));
    assert!(matches("/HELLO/i", "hello"));
    assert_eq!(Pattern::parse("/(/").unwrap_err().kind(), PatternErrorKind::Syntax);
}

#[test]
fn the_steps_of_a_regular_expression_are_limited() {
    let pattern = Pattern::parse(r"/(a+)+\1c/").expect("it is read");
    let error = pattern.search(&format!("{}bac", "a".repeat(40))).unwrap_err();
    assert_eq!(error.kind(), PatternErrorKind::Limit);
}

#[test]
fn the_steps_of_a_query_are_limited() {
    let pattern = Pattern::parse(r"/(a+)+\1c/").expect("it is read");
    let text = format!("{}bac", "a".repeat(14));
    let refused = (0..100_000).find_map(|_| pattern.search(&text).err()).expect("all texts together take too long");
    assert_eq!(refused.kind(), PatternErrorKind::Limit);
}

#[test]
fn json_paths_find_values() {
    let json = r#"{"name":"alice","items":[{"id":1},{"id":2}],"nested":{"deep":{"value":42}}}"#;
    for path in ["$.name", "$.nested.deep.value", "$.items[0].id", "$.items[*].id", "$..value", "$['name']"] {
        assert!(matches(path, json), "{path}");
    }
    for path in ["$.missing", "$..missing", "$.items[7]"] {
        assert!(!matches(path, json), "{path}");
    }
    assert!(!matches("$.name", "not json"));
    let found = Pattern::parse("$.items[1].id").unwrap().search(json).unwrap().unwrap();
    assert_eq!((found.text.as_str(), found.offset), ("2", 0));
}

/// The first selected node is returned, as in `fixtures/rummy/pattern/xpath.json`.
#[test]
fn an_xpath_selects_the_first_node() {
    let cases: serde_json::Value = serde_json::from_str(include_str!("../../../../fixtures/rummy/pattern/xpath.json"))
        .expect("the fixture is JSON");
    let lines = cases["text"].as_array().expect("lines").iter().filter_map(|line| line.as_str());
    let text = lines.collect::<Vec<_>>().join("\n");
    let mut wrong = Vec::new();
    for case in cases["cases"].as_array().expect("cases") {
        let pattern = case["pattern"].as_str().expect("a pattern");
        let found = Pattern::parse(pattern).and_then(|pattern| pattern.search(case["in"].as_str().unwrap_or(&text)));
        let is_right = match (&found, case["error"].as_str()) {
            (Err(error), Some(says)) => error.to_string().contains(says),
            (Ok(found), None) => found.as_ref().map(|found| found.text.as_str()) == case["found"].as_str(),
            _ => false,
        };
        if !is_right {
            wrong.push(format!("{}: {pattern} came to {found:?}", case["name"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_steps_of_an_xpath_are_limited() {
    let text = format!("<a>{}</a>", "<b><c/></b>".repeat(2000));
    let pattern = Pattern::parse("//b[count(//c[count(//b) > 1]) > 1]").unwrap();
    assert_eq!(pattern.matches(&text).unwrap_err().kind(), PatternErrorKind::Limit);
    let many = format!("<a>{}</a>", "<b/>".repeat(20_000));
    assert_eq!(Pattern::parse("//b").unwrap().matches(&many).unwrap_err().kind(), PatternErrorKind::Limit);
    let deep = format!("{}{}", "<a>".repeat(3000), "</a>".repeat(3000));
    assert!(Pattern::parse("//a[last()]").unwrap().matches(&deep).unwrap());
    assert_eq!(Pattern::parse(&format!("//{}", "a".repeat(600))).unwrap_err().kind(), PatternErrorKind::Limit);
}

#[test]
fn searches_find_a_place() {
    let find = |pattern: &str, text: &str| {
        Pattern::parse(pattern).unwrap().search(text).unwrap().map(|found| (found.text, found.offset))
    };
    assert_eq!(find("port = 3000", "const port = 3000;"), Some(("port = 3000".to_owned(), 6)));
    assert_eq!(find(r"/\d+/", "port = 3000"), Some(("3000".to_owned(), 7)));
    assert_eq!(find("s/3000/8080/", "port = 3000"), Some(("3000".to_owned(), 7)));
    assert_eq!(find("missing", "nothing here"), None);
    assert_eq!(find("*.js", "import from app.js"), Some(("import from app.js".to_owned(), 0)));
}

#[test]
fn replacements_expand() {
    let replace = |pattern: &str, with: &str, text: &str| Pattern::parse(pattern).unwrap().replace(text, with).unwrap();
    assert_eq!(replace("3000", "8080", "port = 3000, 3000").as_deref(), Some("port = 8080, 8080"));
    assert_eq!(replace(r"/\d+/", "NUM", "1 and 22").as_deref(), Some("NUM and NUM"));
    assert_eq!(replace(r"/(\w+)=(\w+)/", "$2=$1", "a=b").as_deref(), Some("b=a"));
    assert_eq!(replace("s/3000/8080/", "", "port = 3000").as_deref(), Some("port = 8080"));
    assert_eq!(replace(r"s/\d+/N/g", "", "1, 2").as_deref(), Some("N, N"));
    assert_eq!(replace("s/hello/world/gi", "", "Hello hello HELLO").as_deref(), Some("world world world"));
    assert_eq!(replace("s/hello/world/i", "", "Hello hello").as_deref(), Some("world hello"));
    assert_eq!(replace("a", "[$&]", "aba").as_deref(), Some("[a]b[a]"));
    assert_eq!(replace("missing", "x", "nothing"), None);
}

#[test]
fn chains_of_sed_are_read() {
    let chain = |text: &str| {
        parse_sed(text)
            .into_iter()
            .map(|one| format!("{}>{}>{}", one.search, one.replace, one.flags))
            .collect::<Vec<_>>()
    };
    assert_eq!(chain("s/3000/8080/"), ["3000>8080>"]);
    assert_eq!(chain("s/old/new"), ["old>new>"]);
    assert_eq!(chain("s/debugger;//"), ["debugger;>>"]);
    assert_eq!(chain("s/foo/bar/g;s/baz/qux/g"), ["foo>bar>g", "baz>qux>g"]);
    assert_eq!(chain("s/old/new/ s/foo/bar/"), ["old>new>", "foo>bar>"]);
    assert_eq!(chain("s/a/b/\ns/c/d/"), ["a>b>", "c>d>"]);
    assert_eq!(chain(r"s/b \/ 4 = 3/12 \/ 4 = 3/"), ["b / 4 = 3>12 / 4 = 3>"]);
    assert_eq!(chain("s|a/b|c|i"), ["a/b>c>i"]);
    assert_eq!(chain("some text"), Vec::<String>::new());
    assert_eq!(chain("sad"), Vec::<String>::new());
}
