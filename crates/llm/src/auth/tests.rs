use super::*;
use futures_util::FutureExt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An environment of variables and command outputs, which records the resolved secrets.
#[derive(Default)]
struct FakeEnvironment {
    variables: BTreeMap<String, String>,
    ran: AtomicUsize,
    learned: Mutex<Vec<String>>,
}

impl KeyEnvironment for FakeEnvironment {
    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }

    fn command(&self, line: &str) -> BoxFuture<'static, Option<String>> {
        self.ran.fetch_add(1, Ordering::Relaxed);
        let printed = line.strip_prefix("print ").map(|text| format!("{text}\n"));
        async move { printed }.boxed()
    }

    fn learned(&self, secret: &str) {
        locked(&self.learned).push(secret.to_owned());
    }
}

struct Case {
    _folder: tempfile::TempDir,
    desk: Arc<FakeEnvironment>,
    auth: Auth,
}

fn case(variables: &[(&str, &str)], file: Option<&Value>) -> Case {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("auth.json");
    if let Some(file) = file {
        std::fs::write(&path, file.to_string()).unwrap();
    }
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let desk = Arc::new(FakeEnvironment { variables, ..FakeEnvironment::default() });
    let disk = pijs_durable::Disk::system();
    let auth = Auth::new(desk.clone(), Ambient::system(), HttpOptions::default()).with_file(AuthFile::new(disk, path));
    Case { _folder: folder, desk, auth }
}

fn config(value: Value) -> ProviderConfig {
    serde_json::from_value(value).unwrap()
}

async fn key(case: &Case, provider: &str, config: Option<&ProviderConfig>) -> Result<Option<String>, String> {
    let found = case.auth.credentials(provider, config, &BTreeMap::new()).await?;
    Ok(found.and_then(|found| found.key))
}

#[tokio::test]
async fn the_order_is_this_run_then_the_file_then_models_json_then_the_environment() {
    let file = json!({"groq": {"type": "api_key", "key": "stored"}});
    let configured = config(json!({"apiKey": "configured"}));
    let with_file = case(&[("GROQ_API_KEY", "environment")], Some(&file));
    assert_eq!(key(&with_file, "groq", Some(&configured)).await.unwrap().as_deref(), Some("stored"));
    assert_eq!(with_file.auth.status("groq", Some(&configured)).unwrap().source, "stored");
    with_file.auth.give("groq", "this run");
    assert_eq!(key(&with_file, "groq", Some(&configured)).await.unwrap().as_deref(), Some("this run"));
    assert_eq!(with_file.auth.status("groq", None).unwrap().source, "runtime");

    let without = case(&[("GROQ_API_KEY", "environment")], None);
    assert_eq!(key(&without, "groq", Some(&configured)).await.unwrap().as_deref(), Some("configured"));
    assert_eq!(key(&without, "groq", None).await.unwrap().as_deref(), Some("environment"));
    let status = without.auth.status("groq", None).unwrap();
    assert_eq!(status.to_value(), json!({"configured": true, "source": "environment", "label": "GROQ_API_KEY"}));
    assert_eq!(key(&without, "mistral", None).await.unwrap(), None);
    assert_eq!(without.auth.status("mistral", None), None);
}

#[tokio::test]
async fn variables_and_commands_are_resolved_on_demand_and_redacted() {
    let file = json!({
        "groq": {"type": "api_key", "key": "!print from-a-command"},
        "xai": {"type": "api_key", "key": "a-${OWN}-$SHARED", "env": {"OWN": "own"}},
        "zai": {"type": "api_key", "key": "$MISSING"},
        "meta": {"type": "api_key", "key": "!fail"},
    });
    let case = case(&[("SHARED", "shared"), ("ZAI_API_KEY", "fallback")], Some(&file));
    assert_eq!(case.auth.status("groq", None).unwrap().source, "stored");
    assert_eq!(case.desk.ran.load(Ordering::Relaxed), 0, "a look runs nothing");
    for (provider, expected) in
        [("groq", Some("from-a-command")), ("xai", Some("a-own-shared")), ("zai", Some("fallback")), ("meta", None)]
    {
        assert_eq!(key(&case, provider, None).await.unwrap().as_deref(), expected, "{provider}");
    }
    key(&case, "groq", None).await.unwrap();
    assert_eq!(case.desk.ran.load(Ordering::Relaxed), 2, "each command of the file runs once");
    let learned = locked(&case.desk.learned);
    for secret in ["from-a-command", "a-own-shared", "fallback"] {
        assert!(learned.iter().any(|known| known == secret), "{secret}");
    }
}

#[tokio::test]
async fn headers_of_models_json_are_resolved_or_fail() {
    let case = case(&[("TOKEN", "t-o-k-e-n")], None);
    let configured = config(json!({"apiKey": "k-e-y", "authHeader": true, "headers": {"X-A": "$TOKEN", "x-b": "1"}}));
    let model = BTreeMap::from([("X-B".to_owned(), "2".to_owned())]);
    let found = case.auth.credentials("mine", Some(&configured), &model).await.unwrap().unwrap();
    let headers = [("Authorization", "Bearer k-e-y"), ("X-A", "t-o-k-e-n"), ("X-B", "2")];
    let headers: BTreeMap<String, String> = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    assert_eq!((found.key.as_deref(), found.headers), (Some("k-e-y"), headers));
    assert!(locked(&case.desk.learned).contains(&"t-o-k-e-n".to_owned()));

    for (written, words) in [
        (json!({"apiKey": "k", "headers": {"x": "$NONE"}}), "environment variable: NONE"),
        (json!({"apiKey": "$NONE$NOR_THIS"}), "environment variables: NONE, NOR_THIS"),
        (json!({"apiKey": "!fail"}), "shell command: fail"),
    ] {
        let said = key(&case, "mine", Some(&config(written))).await.unwrap_err();
        assert!(said.contains("provider \"mine\"") && said.ends_with(words), "{said}");
    }
}

#[tokio::test]
async fn a_claude_token_is_a_header() {
    let case = case(&[("ANTHROPIC_AUTH_TOKEN", "the-token"), ("ANTHROPIC_API_KEY", "the-key")], None);
    let found = case.auth.credentials("anthropic", None, &BTreeMap::new()).await.unwrap().unwrap();
    assert_eq!(found.key, None);
    assert_eq!(found.headers["Authorization"], "Bearer the-token");
    assert!(!format!("{found:?}").contains("the-token"));
}

fn login(access: &str, expires: f64) -> Value {
    json!({"type": "oauth", "access": access, "refresh": "refresh-token", "expires": expires})
}

#[tokio::test]
async fn an_expired_login_names_a_remedy() {
    let file = json!({
        "xai": login("good", 9e15), "openrouter": login("over", 1.0), "anthropic": login("claude", 9e15),
        "github-copilot": login("tid=1;proxy-ep=proxy.business.example.com;x=y", 9e15),
    });
    let case = case(&[], Some(&file));
    assert!(case.auth.status("xai", None).unwrap().oauth);
    assert_eq!(key(&case, "xai", None).await.unwrap().as_deref(), Some("good"));
    let said = key(&case, "openrouter", None).await.unwrap_err();
    assert!(said.contains("has expired") && said.contains("OPENROUTER_API_KEY") && !said.contains("over\""), "{said}");
    let said = key(&case, "anthropic", None).await.unwrap_err();
    assert!(said.contains("set ANTHROPIC_API_KEY"), "{said}");
    let found = case.auth.credentials("github-copilot", None, &BTreeMap::new()).await.unwrap().unwrap();
    assert_eq!(found.base_url.as_deref(), Some("https://api.business.example.com"));
}

#[tokio::test]
async fn an_unreadable_file_is_reported_on_demand() {
    let case = case(&[("GROQ_API_KEY", "environment")], Some(&json!(["x"])));
    assert!(key(&case, "groq", None).await.unwrap_err().contains("auth.json"));
}

/// Serves one response as GitHub, and returns the request.
fn github(status: &str, body: &str) -> (String, std::thread::JoinHandle<String>) {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/token", listener.local_addr().unwrap());
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
    let served = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut piece = [0; 4096];
        while !request.ends_with(b"\r\n\r\n") {
            let read = socket.read(&mut piece).unwrap();
            request.extend_from_slice(&piece[..read]);
        }
        socket.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(request).unwrap().to_lowercase()
    });
    (url, served)
}

#[tokio::test]
async fn a_copilot_token_is_renewed_with_github_s() {
    let old: Login = serde_json::from_value(login("old", 1.0)).unwrap();
    let (url, served) = github("200 OK", r#"{"token": "new;proxy-ep=proxy.a.b", "expires_at": 2000000000}"#);
    let renewed = copilot::renew_at(&url, &old, &HttpOptions::default()).await.unwrap();
    assert_eq!((renewed.access.as_str(), renewed.expires), ("new;proxy-ep=proxy.a.b", 2e12 - 300_000.0));
    assert_eq!(copilot::base_url(&renewed), "https://api.a.b");
    let request = served.join().unwrap();
    assert!(
        request.contains("authorization: bearer refresh-token") && request.contains("editor-version:"),
        "{request}"
    );

    for (status, body, words) in
        [("401 Unauthorized", "{}", "401"), ("200 OK", "{}", "has no token"), ("200 OK", "<html>", "not JSON")]
    {
        let (url, served) = github(status, body);
        let said = copilot::renew_at(&url, &old, &HttpOptions::default()).await.unwrap_err();
        assert!(said.contains(words) && said.contains("COPILOT_GITHUB_TOKEN"), "{said}");
        served.join().unwrap();
    }
}

#[tokio::test]
async fn an_entry_of_an_extension_is_reserved_for_it() {
    let file = json!({
        "groq": {"type": "api_key", "key": "of-x", "extension": "npm:x"},
        "acme": {"type": "oauth", "access": "a", "refresh": "r", "expires": 1, "tier": 2, "extension": "npm:x"},
    });
    let case = case(&[], Some(&file));
    assert_eq!(key(&case, "groq", None).await, Ok(None), "a provider of pi's own does not use it");
    assert_eq!(case.auth.status("groq", None), None);
    assert_eq!(case.auth.credential_for_extension("npm:y", "acme").await, None);
    let told = json!({"type": "oauth", "access": "a", "refresh": "r", "expires": 1.0, "tier": 2});
    assert_eq!(case.auth.credential_for_extension("npm:x", "acme").await, Some(told));
    // An entry stored by another extension does not inherit members.
    case.auth.store_key_for_extension("npm:y", "groq", "of-y").await.unwrap();
    assert_eq!(case.auth.credential_for_extension("npm:x", "groq").await, None);
    let told = json!({"type": "api_key", "key": "of-y"});
    assert_eq!(case.auth.credential_for_extension("npm:y", "groq").await, Some(told));
    case.auth.store_key("groq", "of-the-user").await.unwrap();
    assert_eq!(case.auth.credential_for_extension("npm:y", "groq").await, None);
    assert_eq!(key(&case, "groq", None).await, Ok(Some("of-the-user".to_owned())));
}

#[tokio::test]
async fn a_login_of_an_extension_is_renewed_once_and_kept_on_failure() {
    let case = case(&[], None);
    let given = json!({"access": "a", "refresh": "r", "expires": 1, "tier": 2});
    case.auth.store_login("npm:x", "acme", given).await.unwrap();
    let why = case.auth.renew_for_extension("npm:x", "acme", async |_| Err("the server is down".to_owned())).await;
    let why = why.unwrap_err();
    assert!(why.contains("OAuth refresh failed for acme: the server is down") && why.contains("/login acme"), "{why}");
    let nothing = case.auth.renew_for_extension("npm:x", "acme", async |_| Ok(json!({"access": "b"}))).await;
    assert!(nothing.unwrap_err().contains("access, refresh and expires"));
    let large = json!({"access": "b", "refresh": "x".repeat(1 << 17), "expires": 9e15});
    let refused = case.auth.renew_for_extension("npm:x", "acme", async |_| Ok(large)).await;
    assert!(refused.unwrap_err().contains("more than 65536 bytes"));
    let asked = AtomicUsize::new(0);
    for _ in 0..2 {
        let renew = async |login: Value| {
            asked.fetch_add(1, Ordering::Relaxed);
            assert_eq!(login["refresh"], "r");
            Ok(json!({"access": "b", "refresh": "s", "expires": 9e15}))
        };
        case.auth.renew_for_extension("npm:x", "acme", renew).await.unwrap();
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    let now = case.auth.credential_for_extension("npm:x", "acme").await.unwrap();
    assert_eq!((&now["access"], &now["refresh"]), (&json!("b"), &json!("s")));
    assert!(locked(&case.desk.learned).iter().any(|secret| secret == "b"), "tokens are kept out of what is written");
}
