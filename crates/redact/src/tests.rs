//! Tests which parts of a text are redacted and which are kept.

use super::*;
use serde_json::json;

/// Checks the redactions of texts by a redactor without known secrets.
fn check_redactions(texts: &[(&str, &str)]) {
    let redactor = Redactor::default();
    for (text, clean) in texts {
        assert_eq!(redactor.text(text), *clean, "{text}");
        assert_eq!(redactor.finds(text), text != clean, "{text}");
    }
}

#[test]
fn clones_share_learnt_secrets() {
    let redactor = Redactor::new([]);
    let clone = redactor.clone();
    assert_eq!(clone.text("it is hush-hush"), "it is hush-hush");
    redactor.learn("hush-hush");
    redactor.learn("it is");
    assert_eq!(clone.text("it is hush-hush"), format!("it is {REDACTED}"));
    assert!(clone.finds("hush-hush"));
    redactor.learn_setting("k7q9");
    redactor.learn_setting("k7q");
    redactor.learn_setting("true");
    assert_eq!(clone.text("k7q9 true k7q"), format!("{REDACTED} true k7q"));
}

#[test]
fn known_secrets_are_found_in_base64_and_in_urls() {
    let secret = "p@ss/w0rd+with=ödd bytes?";
    let redactor = Redactor::new([secret.to_owned()]);
    for before in ["", "a", "ab", "abc"] {
        for alphabet in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            let text = alphabet.encode(format!("{before}{secret} and more"));
            let clean = redactor.text(&text);
            assert!(clean.contains(REDACTED), "{before:?}: {text}");
            let core = alphabet.encode(secret);
            assert!(!clean.contains(&core[2..20]), "{clean}");
        }
    }
    let query = format!("https://x/?q={}", url::form_urlencoded::byte_serialize(secret.as_bytes()).collect::<String>());
    assert_eq!(redactor.text(&query), "https://x/?q=[REDACTED]");
}

#[test]
fn known_secrets_are_found_in_every_escaping() {
    let secret = "pa\"ss\\w/ord+\u{f6} x!";
    let redactor = Redactor::new([secret.to_owned()]);
    let json = json!({ "a": secret }).to_string();
    for spelled in [
        "pa%22ss%5Cw%2Ford%2B%C3%B6%20x!",
        "pa%22ss%5cw%2ford%2b%c3%b6%20x%21",
        "pa%22ss%5Cw/ord+%C3%B6%20x!",
        "pa%22ss%5Cw%2Ford%2B%C3%B6+x%21",
        "pa%22ss%5Cw/ord+\u{f6}+x!",
        "pa%2522ss%255Cw/ord+%25C3%25B6%2520x!",
        r#"pa\"ss\\w/ord+\u00f6 x!"#,
        r#"pa\"ss\\w\/ord+ö x\x21"#,
        r#"pa\\\"ss\\\\w/ord+ö x!"#,
        r#"pa\"ss\\w/ord+\u{f6} x!"#,
        "70612273735c772f6f72642bc3b6207821",
        "70612273735C772F6F72642BC3B6207821",
    ] {
        let text = format!("é%zz \\q {spelled} and more");
        assert_eq!(redactor.text(&text), "é%zz \\q [REDACTED] and more", "{spelled}");
        assert!(redactor.finds(&text), "{spelled}");
    }
    assert_eq!(redactor.text(&json), "{\"a\":\"[REDACTED]\"}");
    let emoji = Redactor::new(["key-\u{1f600}-end".to_owned()]);
    assert_eq!(emoji.text(r"key-\ud83d\ude00-end, \ud83d"), r"[REDACTED], \ud83d");
    for plain in ["100% of C:\\u\\x", "%", "\\", "\\u{", "%4", "\\ud800"] {
        assert_eq!(redactor.text(plain), plain);
    }
}

#[test]
fn private_keys_and_url_passwords_are_redacted() {
    check_redactions(&[
        ("a -----BEGIN PRIVATE KEY-----\nMIIE\nvQIB\n-----END PRIVATE KEY----- b", "a [REDACTED] b"),
        ("\"-----BEGIN OPENSSH PRIVATE KEY-----\\nb3Bl\\n-----END OPENSSH PRIVATE KEY-----\\n\"", "\"[REDACTED]\\n\""),
        ("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4\ncut of", "[REDACTED]"),
        ("-----BEGIN CERTIFICATE-----\nMIIE", "-----BEGIN CERTIFICATE-----\nMIIE"),
        ("-----BEGIN ", "-----BEGIN "),
        ("postgres://user:hunter2@db/x", "postgres://user:[REDACTED]@db/x"),
        ("redis://:p@ss@db:6379 https://u:p@h?q", "redis://:[REDACTED]@db:6379 https://u:[REDACTED]@h?q"),
        ("ssh://git@host:22/x https://host:443/@scope/a:b@c", "ssh://git@host:22/x https://host:443/@scope/a:b@c"),
        ("https://user:@host/", "https://user:@host/"),
    ]);
}

#[test]
fn assignments_to_secret_names_are_redacted() {
    check_redactions(&[
        ("GET /v1?api_key=abc&n=1", "GET /v1?api_key=[REDACTED]&n=1"),
        ("curl -H 'X-Api-Key: abc' x", "curl -H 'X-Api-Key: [REDACTED]' x"),
        ("{\"password\":\"a b\"}", "{\"password\":\"[REDACTED]\"}"),
        ("{\"password\":\"a\\\"b\",\"n\":1}", "{\"password\":\"[REDACTED]\",\"n\":1}"),
        ("{'token': 'a, b', n: 1}", "{'token': '[REDACTED]', n: 1}"),
        ("{\"secret\":{\"a\":[\"x y\"]},\"n\":1}", "{\"secret\":[REDACTED],\"n\":1}"),
        ("tokens: [a, b], n", "tokens: [a, b], n"),
        ("passwords=[a, b] n", "passwords=[a, b] n"),
        ("Authorization: Basic dTpw", "Authorization: [REDACTED]"),
        ("API-KEY = abc; next", "API-KEY = [REDACTED]; next"),
        ("{\\\"token\\\": \\\"abc\\\"}", "{\\\"token\\\": \\\"[REDACTED]\\\"}"),
        ("totalTokens=12, max_tokens: 5", "totalTokens=12, max_tokens: 5"),
        ("key: value, author: me", "key: value, author: me"),
        ("token=", "token="),
        ("https://host:443/token/x", "https://host:443/token/x"),
    ]);
}

#[test]
fn values_of_secret_options_are_redacted_in_text() {
    check_redactions(&[
        ("mysql --password hunter2 -h db", "mysql --password [REDACTED] -h db"),
        ("x --token abc", "x --token [REDACTED]"),
        ("x --TOKEN \tabc\ny", "x --TOKEN \t[REDACTED]\ny"),
        (
            "x --api-key=abc --api_key abc --apiKey abc",
            "x --api-key=[REDACTED] --api_key [REDACTED] --apiKey [REDACTED]",
        ),
        ("x --db-password hunter2,a;b)c", "x --db-password [REDACTED]"),
        ("x --client-secret 'a b' c", "x --client-secret '[REDACTED]' c"),
        ("x --password \"a 'b\" c", "x --password \"[REDACTED]\" c"),
        ("'--password' 'a b' c", "'--password' '[REDACTED]' c"),
        ("x --password \\\n    hunter2 y", "x --password \\\n    [REDACTED] y"),
        ("--authorization Bearer abc d", "--authorization [REDACTED] d"),
        ("[\"--password\",\"a b\",\"c\"]", "[\"--password\",\"[REDACTED]\",\"c\"]"),
        ("[ '--password',\n  'a b', 'c' ]", "[ '--password',\n  '[REDACTED]', 'c' ]"),
        ("[\\\"--password\\\",\\\"a b\\\"]", "[\\\"--password\\\",\\\"[REDACTED]\\\"]"),
        ("{\"command\":\"x --password abc\",\"n\":1}", "{\"command\":\"x --password [REDACTED]\",\"n\":1}"),
        ("{\\\"command\\\":\\\"x --password abc\\\"}", "{\\\"command\\\":\\\"x --password [REDACTED]\\\"}"),
        ("--password -Secret1", "--password [REDACTED]"),
        ("--password --token abc", "--password --token [REDACTED]"),
    ]);
    for text in [
        "x --password-file path",
        "x --token-type bearer",
        "git commit --author NAME",
        "docker login --password-stdin < file",
        "x --no-password y",
        "x --ask-password y",
        "gh auth login --with-token < file",
        "x --max-tokens 5",
        "x --private-key path",
        "x --key value -p value -t value",
        "x --password",
        "x --password -",
        "x --password --user me",
        "--password\nnext line",
        "the option --token is required, and --password or --secret must be given",
        "x--password y",
        "x ---password y",
        "[\"--password\",\"--user\"]",
        "{\"flag\":\"--password\",\"value\":3}",
        "{\"flag\":\"--password\"}",
        "--",
        "-- password x",
    ] {
        check_redactions(&[(text, text)]);
    }
}

#[test]
fn values_of_secret_options_are_redacted_in_lists() {
    let redactor = Redactor::default();
    for (list, clean) in [
        (json!(["--password", "x", "y"]), json!(["--password", REDACTED, "y"])),
        (json!(["--api-key", "-x"]), json!(["--api-key", REDACTED])),
        (json!(["--token", 12345]), json!(["--token", REDACTED])),
        (json!(["--token", "is"]), json!(["--token", REDACTED])),
        (json!(["--token=abc", "y"]), json!(["--token=[REDACTED]", "y"])),
        (json!([["--password", "x"]]), json!([["--password", REDACTED]])),
        (json!(["-c", "x --password y z"]), json!(["-c", "x --password [REDACTED] z"])),
    ] {
        assert_eq!(redactor.value(&list), clean);
        let params = json!({ "args": list });
        assert!(secrets::are_in(params.as_object().expect("an object"), &redactor), "{params}");
    }
    for list in [
        json!(["--password-file", "path"]),
        json!(["--author", "NAME"]),
        json!(["--password", "--user", "me"]),
        json!(["--password", "-"]),
        json!(["--password"]),
        json!(["--password", null, ["x"], {"a": 1}]),
        json!(["password", "x"]),
        json!(["-p", "8080"]),
        json!(["--no-password", "x"]),
    ] {
        assert_eq!(redactor.value(&list), list);
        let params = json!({ "args": list });
        assert!(!secrets::are_in(params.as_object().expect("an object"), &redactor), "{params}");
    }
}

#[test]
fn keys_match_as_whole_words_in_every_spelling() {
    for key in [
        "api_key",
        "apiKey",
        "X-API-KEY",
        "APIKey",
        "DBPassword",
        "token",
        "accessToken",
        "Authorization",
        "set-cookie",
        "PASSWORD",
        "passwd",
        "client_secret",
        "privateKey",
        "PRIVATE_KEY",
        "credentials",
        "bearer",
        "apikey",
        "OPENAI_API_KEY",
    ] {
        assert!(is_secret_key(key), "{key}");
    }
    for key in ["totalTokens", "max_tokens", "tokenizer", "secretary", "key", "apiVersion", "author", "keyboard", ""] {
        assert!(!is_secret_key(key), "{key}");
    }
}

#[test]
fn the_fast_check_misses_no_credential() {
    let redactor = Redactor::default();
    for prefix in CREDENTIAL_PREFIXES {
        // The shortest possible credential, at both ends of a text and between others.
        let shortest = format!("{prefix}abcdefghijkl");
        for text in [shortest.clone(), format!("é {shortest}"), format!("{shortest} é"), format!("sk-x ({shortest})")]
        {
            let cleaned = redactor.text(&text);
            assert!(cleaned.contains(REDACTED) && !cleaned.contains(&shortest), "{text}: {cleaned}");
        }
        let ordinary = format!("{prefix}abc");
        assert_eq!(redactor.text(&ordinary), ordinary);
    }
}

#[test]
fn known_values_are_redacted_everywhere() {
    let redactor = Redactor::new(["hunter2hunter2".to_owned(), "abc".to_owned()]);
    let data = json!({
        "url": "https://x/?k=hunter2hunter2&n=1",
        "list": [{"apiKey": 7}, "Authorization: Bearer abcdefghijklmnop"],
        "abc": "abc",
        "risk-sk-assessment": "task-sk-y",
    });
    assert_eq!(
        redactor.value(&data),
        json!({
            "url": "https://x/?k=[REDACTED]&n=1",
            "list": [{"apiKey": "[REDACTED]"}, "Authorization: [REDACTED]"],
            "abc": "abc",
            "risk-sk-assessment": "task-sk-y",
        })
    );
}

/// Takes hours if the scan of a megabyte is quadratic.
#[test]
fn redaction_takes_linear_time() {
    let redactor = Redactor::new(["hunter2\"hunter2".to_owned()]);
    let key = "-----BEGIN PRIVATE KEY-----a-----END PRIVATE KEY-----";
    for (piece, expected) in [
        ("xsk-", "xsk-"),
        ("-sk-a ", "-sk-a "),
        (key, REDACTED),
        ("-----BEGIN x", "-----BEGIN x"),
        ("hunter2%22hunter2 ", "[REDACTED] "),
        ("://a:b@", "://a:b@"),
        ("token:", "token:"),
        ("token='", "token='"),
        ("\\\"':", "\\\"':"),
        ("--", "--"),
        ("--token ", "--token "),
        ("--token,", "--token,"),
        ("--token \\\"", "--token \\\""),
        ("--token\\\\\\\\", "--token\\\\\\\\"),
        ("--token 'abc' ", "--token '[REDACTED]' "),
    ] {
        let count = (1 << 20) / piece.len();
        let cleaned = redactor.text(&piece.repeat(count));
        if expected != piece {
            assert_eq!(cleaned, expected.repeat(count), "{piece}");
        }
    }
}
