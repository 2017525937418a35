use super::*;
use crate::places::Places;
use crate::policy::Policy;
use crate::prompt::Prompter;
use crate::task::BoxFuture;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// Scripted user, who answers one prompt at a time as soon as an answer is set.
struct ScriptedUser {
    given: Semaphore,
    answers: Mutex<Vec<Answer>>,
    asked: Mutex<Vec<Question>>,
}

impl ScriptedUser {
    fn answer(&self, answers: &[Answer]) {
        self.answers.lock().unwrap().splice(0..0, answers.iter().rev().copied());
        self.given.add_permits(answers.len());
    }

    fn subjects(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|question| question.subject.clone()).collect()
    }
}

struct Prompt(Arc<ScriptedUser>);

impl Prompter for Prompt {
    fn ask(&self, question: Question) -> BoxFuture<'static, Answer> {
        self.0.asked.lock().unwrap().push(question);
        let person = Arc::clone(&self.0);
        Box::pin(async move {
            person.given.acquire().await.unwrap().forget();
            person.answers.lock().unwrap().pop().unwrap()
        })
    }
}

fn gate(mode: Mode) -> (Gate, Arc<ScriptedUser>) {
    let person =
        Arc::new(ScriptedUser { given: Semaphore::new(0), answers: Mutex::default(), asked: Mutex::default() });
    let places = Places::new("/projects/app", "/home/me", "/home/me/.pi/agent", "/tmp");
    let policy = Policy { mode, ..Policy::default() };
    (Gate::builder(policy, places).prompter(Arc::new(Prompt(Arc::clone(&person)))).build(), person)
}

fn caller(extension: &str) -> Caller {
    Caller::new(Arc::new(Profile::new(extension)))
}

#[tokio::test]
async fn a_refusal_without_a_prompt_says_how_long_it_holds_and_how_to_allow_the_call() {
    let (gate, person) = gate(Mode::Prompt);
    let refused = async |extension: &str| {
        let call = parsed("exec", serde_json::json!({"command": "uname", "args": ["-s"]}));
        let required = call.required().unwrap();
        let (decision, _) = gate.ask(&caller(extension), "exec", &required).await.unwrap();
        let refusal = decision.refusal("exec", &required.subject);
        let command = gate.note_refused(&caller(extension), &required, decision.reason, &refusal);
        (refusal.message, command)
    };
    gate.begin_load(&"a".into());
    person.answer(&[Answer::Deny]);
    let what = "exec: capability `exec` for uname -s is";
    assert_eq!(refused("a").await, (format!("{what} denied by the user"), None));
    let (message, command) = refused("a").await;
    assert_eq!(
        message,
        format!("{what} denied by the user's answer to an equal call; once all extensions are loaded, calls ask again")
    );
    assert_eq!(command.as_deref(), Some("pi ext grants allow a 'exec:uname -s \"\"'"));
    gate.end_loads();
    person.answer(&[Answer::Mute]);
    assert_eq!(refused("a").await, (format!("{what} denied by the user"), None), "it asks again");
    let (message, command) = refused("a").await;
    assert!(message.contains("too many prompts were denied in this session"), "{message}");
    assert!(command.is_some());
}

/// Starts a call that needs a prompt, in a task. The task has entered the queue when this returns.
async fn wants(gate: &Gate, extension: &str, command: &'static str) -> JoinHandle<String> {
    let (gate, caller) = (gate.clone(), caller(extension));
    let prompts = tokio::spawn(async move {
        let subject = Subject::Program { command, args: Vec::new(), cwd: None, given: Default::default() };
        let required = Required::new("exec", subject);
        let (decision, _) = gate.ask(&caller, "exec", &required).await.unwrap();
        decision.reason.map_or("allowed", Reason::as_str).to_owned()
    });
    tokio::task::yield_now().await;
    prompts
}

async fn all(prompts: Vec<JoinHandle<String>>) -> Vec<String> {
    let mut ends = Vec::new();
    for one in prompts {
        ends.push(one.await.unwrap());
    }
    ends
}

fn parsed(method: &str, params: serde_json::Value) -> crate::derive::ParsedCall {
    let serde_json::Value::Object(params) = params else { panic!("parameters are an object") };
    crate::derive::ParsedCall::parse(method, params, Vec::new()).expect("a valid call")
}

#[tokio::test]
async fn a_denial_settles_waiting_prompts_with_the_same_subject() {
    let (gate, person) = gate(Mode::Prompt);
    let mut prompts = Vec::new();
    for command in ["ls", "ls", "cat", "ls"] {
        prompts.push(wants(&gate, "a", command).await);
    }
    person.answer(&[Answer::Deny, Answer::AllowOnce]);
    assert_eq!(all(prompts).await, ["user", "user", "allowed", "user"]);
    assert_eq!(person.subjects(), ["ls", "cat"]);
    // No prompt is waiting any more, so the next call causes a new one.
    person.answer(&[Answer::AllowOnce]);
    assert_eq!(all(vec![wants(&gate, "a", "ls").await]).await, ["allowed"]);
    assert_eq!(person.subjects(), ["ls", "cat", "ls"]);
}

#[tokio::test]
async fn an_answer_settles_covered_prompts_of_this_extension() {
    let (gate, person) = gate(Mode::Prompt);
    let mut prompts = Vec::new();
    for (extension, command) in [("a", "ls"), ("a", "cat"), ("b", "ls"), ("a", "ls")] {
        prompts.push(wants(&gate, extension, command).await);
    }
    person.answer(&[Answer::AllowCapability, Answer::Deny]);
    assert_eq!(all(prompts).await, ["allowed", "allowed", "user", "allowed"]);
    assert_eq!(person.subjects(), ["ls", "ls"]);
}

#[tokio::test]
async fn all_requests_can_be_granted_together() {
    let (gate, person) = gate(Mode::Prompt);
    let request = |capability: &str, commands: Option<&[&str]>| CapabilityRequest {
        capability: capability.into(),
        methods: None,
        scope: commands.map(|commands| Scope {
            commands: Some(commands.iter().map(|command| (*command).to_owned()).collect()),
            ..Scope::default()
        }),
    };
    gate.set_wanted(&Profile::new("a"), vec![request("exec", Some(&["cat", "date"])), request("egress", None)]);
    let prompts = [wants(&gate, "a", "cat").await, wants(&gate, "a", "date").await, wants(&gate, "a", "ls").await];
    person.answer(&[Answer::AllowPackage, Answer::Deny]);
    assert_eq!(all(prompts.into()).await, ["allowed", "allowed", "user"]);
    assert_eq!(person.subjects(), ["cat", "ls"]);
    let offered: Vec<usize> = person.asked.lock().unwrap().iter().map(|question| question.package.len()).collect();
    assert_eq!(offered, [2, 0], "it is offered until it is agreed to");
    assert!(gate.holds(&caller("a"), "egress").allowed);
    // An answer that was not offered is a denial.
    person.answer(&[Answer::AllowPackageAlways]);
    assert_eq!(all(vec![wants(&gate, "b", "cat").await]).await, ["user"]);
}

#[tokio::test]
async fn only_the_shown_requests_are_granted() {
    let (gate, person) = gate(Mode::Prompt);
    let request = |capability: &str| CapabilityRequest { capability: capability.into(), methods: None, scope: None };
    gate.set_wanted(&Profile::new("a"), vec![request("read")]);
    let prompts = wants(&gate, "a", "cat").await;
    // The requests changed by a reload.
    gate.set_wanted(&Profile::new("a"), vec![request("read"), request("exec")]);
    person.answer(&[Answer::AllowPackage]);
    assert_eq!(all(vec![prompts]).await, ["user"]);
    assert!(!gate.holds(&caller("a"), "exec").allowed);
    gate.set_wanted(&Profile::new("a"), vec![request("read"); MAX_REQUESTED + 1]);
    person.answer(&[Answer::Deny]);
    assert_eq!(all(vec![wants(&gate, "a", "ls").await]).await, ["user"]);
    assert!(person.asked.lock().unwrap().last().unwrap().package.is_empty(), "too long to be read");
}

#[tokio::test]
async fn probes_of_missing_files_do_not_prompt() {
    let person =
        Arc::new(ScriptedUser { given: Semaphore::new(0), answers: Mutex::default(), asked: Mutex::default() });
    let places = Places::new("/projects/app", "/home/me", "/home/me/.pi/agent", "/tmp");
    let gate = Gate::builder(Policy::default(), places).prompter(Arc::new(Prompt(Arc::clone(&person))));
    let gate = gate.exists(Arc::new(|path| path == Path::new("/etc/there"))).build();
    let look = |op: &str, path: &str| {
        let call = parsed("fs", serde_json::json!({"op": op, "path": path}));
        gate.judge(&caller("a"), "fs", &call.required().unwrap()).unwrap()
    };
    for op in ["access", "exists", "lstat", "readlink", "realpath", "stat", "statfs"] {
        assert!(matches!(look(op, "/etc/there"), Judgement::Ask(..)), "{op}");
        let Judgement::Settled(decision) = look(op, "/etc/absent") else { panic!("{op} is asked") };
        assert!(!decision.allowed && decision.rule == Rule::Unset, "{op}");
    }
    // The content of a file or folder reveals more than its existence.
    for op in ["readFile", "readdir"] {
        assert!(matches!(look(op, "/etc/absent"), Judgement::Ask(..)), "{op}");
    }
}

#[tokio::test]
async fn one_topic_prompts_once_during_a_load() {
    let (gate, person) = gate(Mode::Prompt);
    let reads = async |op: &str, path: &str| {
        let call = parsed("fs", serde_json::json!({"op": op, "path": path}));
        let required = call.required().unwrap();
        gate.ask(&caller("a"), "fs", &required).await.unwrap().0.allowed
    };
    gate.begin_load(&"a".into());
    person.answer(&[Answer::AllowOnce, Answer::Deny, Answer::AllowOnce]);
    // Different operations have the same topic.
    for op in ["stat", "lstat", "readFile", "readFile"] {
        assert!(reads(op, "/etc/yes").await, "{op}");
        assert!(!reads(op, "/etc/x/../no").await, "{op}");
    }
    assert_eq!(all(vec![wants(&gate, "b", "ls").await]).await, ["allowed"], "another one has answers of its own");
    person.answer(&[Answer::AllowOnce, Answer::Deny]);
    for expected in ["allowed", "user"] {
        assert_eq!(all(vec![wants(&gate, "b", "ls").await]).await, [expected], "it is not being loaded");
    }
    assert_eq!(person.subjects(), ["'/etc/yes'", "'/etc/no'", "ls", "ls", "ls"]);
    let holds: Vec<AnswerExtent> = person.asked.lock().unwrap().iter().map(|question| question.holds).collect();
    assert_eq!(holds[..3], [AnswerExtent::Load, AnswerExtent::Load, AnswerExtent::Call]);
    assert_eq!(gate.inner.prompts.refused_in_a_row(&"a".into()), 1, "one answer counts once");
    gate.end_loads();
    person.answer(&[Answer::Deny, Answer::Deny]);
    assert!(!reads("stat", "/etc/yes").await && !reads("stat", "/etc/yes").await, "each call is asked about again");
    // A new load ignores the answers of the previous one.
    gate.begin_load(&"a".into());
    person.answer(&[Answer::Deny]);
    assert!(!reads("stat", "/etc/yes").await && !reads("stat", "/etc/yes").await);
    gate.end_load(&"a".into());
}

#[tokio::test]
async fn text_prompts_once_and_a_probe_never() {
    let (gate, person) = gate(Mode::Prompt);
    let compiles = async |bytes: u64, probe: bool| {
        let params = serde_json::json!({"op": "compile", "bytes": bytes, "digest": "sha256:ab", "probe": probe});
        let call = parsed("module", params);
        let required = call.required().unwrap();
        gate.ask(&caller("a"), "module", &required).await.unwrap().0.allowed
    };
    assert!(!compiles(1, true).await, "nobody is asked");
    for (answer, allowed) in [(Answer::Deny, false), (Answer::AllowOnce, true)] {
        gate.begin_load(&"a".into());
        gate.end_load(&"a".into());
        person.answer(&[answer]);
        for bytes in 1..4 {
            assert_eq!(compiles(bytes, false).await, allowed);
        }
        assert!(!compiles(1, true).await);
    }
    assert_eq!(person.subjects(), vec!["code made of text (1 bytes, sha256:ab)"; 2]);
    person.answer(&[Answer::AllowSubject]);
    gate.begin_load(&"a".into());
    assert!(compiles(5, false).await && compiles(1, true).await, "with the grant a probe is told so");
}

#[tokio::test]
async fn later_input_prompts_each_time_during_a_load() {
    let (gate, person) = gate(Mode::Prompt);
    gate.begin_load(&"a".into());
    person.answer(&[Answer::AllowOnce, Answer::Deny]);
    for allowed in [true, false] {
        let given = crate::subject::ProgramContext { input: Input::Later, ..Default::default() };
        let subject = Subject::Program { command: "sh", args: Vec::new(), cwd: None, given };
        let (decision, _) = gate.ask(&caller("a"), "exec", &Required::new("exec", subject)).await.unwrap();
        assert_eq!(decision.allowed, allowed);
    }
}

#[tokio::test]
async fn muting_settles_all_waiting_prompts() {
    let (gate, person) = gate(Mode::Prompt);
    let mut prompts = Vec::new();
    for (extension, command) in [("a", "ls"), ("a", "cat"), ("b", "ls")] {
        prompts.push(wants(&gate, extension, command).await);
    }
    person.answer(&[Answer::Mute, Answer::AllowOnce]);
    assert_eq!(all(prompts).await, ["user", "user", "allowed"]);
    assert_eq!(all(vec![wants(&gate, "a", "date").await]).await, ["quota"]);
}

#[tokio::test]
async fn waiting_prompts_per_extension_are_limited() {
    let (gate, person) = gate(Mode::Prompt);
    let mut waiting = Vec::new();
    for _ in 0..MAX_WAITING {
        waiting.push(wants(&gate, "a", "ls").await);
    }
    assert_eq!(all(vec![wants(&gate, "a", "cat").await]).await, ["quota"]);
    let other = wants(&gate, "b", "cat").await;
    assert!(!other.is_finished(), "another extension may wait");
    person.answer(&[Answer::AllowSubject, Answer::AllowOnce, Answer::AllowOnce]);
    assert_eq!(all(waiting).await, vec!["allowed"; MAX_WAITING as usize]);
    assert_eq!(all(vec![other, wants(&gate, "a", "cat").await]).await, ["allowed", "allowed"]);
}

#[tokio::test]
async fn a_dropped_prompt_leaves_the_queue() {
    let (gate, person) = gate(Mode::Prompt);
    for _ in 0..2 * MAX_WAITING {
        let given_up = wants(&gate, "a", "ls").await;
        given_up.abort();
        assert!(given_up.await.unwrap_err().is_cancelled());
    }
    person.answer(&[Answer::AllowOnce]);
    assert_eq!(all(vec![wants(&gate, "a", "ls").await]).await, ["allowed"]);
}

#[tokio::test]
async fn a_prompt_has_the_number_of_denials_in_a_row() {
    let (gate, person) = gate(Mode::Prompt);
    let answers = [Answer::Deny, Answer::DenyAlways, Answer::NoPerson, Answer::Deny, Answer::AllowOnce, Answer::Deny];
    for (at, answer) in answers.into_iter().enumerate() {
        person.answer(&[answer]);
        // A permanent denial covers the capability, so each iteration uses another one.
        let capability = ["exec", "http", "env", "tool", "verdict", "provider"][at];
        let required = Required::new(capability, Subject::None);
        gate.ask(&caller("a"), "", &required).await.unwrap();
    }
    let refused: Vec<u32> = person.asked.lock().unwrap().iter().map(|question| question.refused).collect();
    assert_eq!(refused, [0, 1, 2, 2, 3, 0]);
    assert_eq!(person.asked.lock().unwrap()[0].what, "run programs");
}

#[tokio::test]
async fn consult_prompts_in_prompt_mode_only() {
    for (mode, agrees) in [(Mode::Permissive, true), (Mode::Strict, false)] {
        let (gate, person) = gate(mode);
        assert_eq!(gate.consult(&caller("a"), "tool.shadow", "take the place of a tool".into(), "bash").await, agrees);
        assert!(person.asked.lock().unwrap().is_empty());
    }
    let (gate, person) = gate(Mode::Prompt);
    for (answer, agrees) in [
        (Answer::AllowOnce, true),
        (Answer::AllowSubject, true),
        (Answer::AllowCapability, true),
        (Answer::AllowAlways, true),
        (Answer::Deny, false),
        (Answer::NoPerson, false),
        (Answer::Mute, false),
        // Muted: there is no prompt and no answer.
        (Answer::AllowOnce, false),
    ] {
        person.answer(&[answer]);
        let found = gate.consult_change(&caller("a"), "tool.shadow", "take its place".into(), "ba\u{202e}sh").await;
        assert_eq!(found, agrees, "{answer:?}");
    }
    let asked = person.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 7);
    assert_eq!((asked[0].what.as_str(), asked[0].subject.as_str()), ("take its place", "ba\\u{202e}sh"));
    assert!(asked[0].holds == AnswerExtent::Change && asked[0].holds.is_yes_or_no());
    let places = Places::new("/projects/app", "/home/me", "/home/me/.pi/agent", "/tmp");
    let alone = Gate::builder(Policy { mode: Mode::Prompt, ..Policy::default() }, places).build();
    assert!(!alone.consult(&caller("a"), "tool.shadow", String::new(), "bash").await);
}

#[tokio::test]
async fn always_is_offered_where_a_grant_can_express_the_subject() {
    let (gate, person) = gate(Mode::Prompt);
    for (method, params, kept) in [
        ("exec", serde_json::json!({"command": "git", "args": ["status"]}), true),
        ("exec", serde_json::json!({"command": "/bin/sh", "args": ["-c", "echo a"]}), false),
        ("exec", serde_json::json!({"command": "git", "args": ["status"], "cwd": "/elsewhere"}), false),
        ("http", serde_json::json!({"url": "https://example.org/"}), true),
        ("fs", serde_json::json!({"op": "readFile", "path": "/etc/hosts"}), true),
    ] {
        let call = parsed(method, params);
        let required = call.required().expect("a valid call");
        person.answer(&[Answer::Deny]);
        gate.ask(&caller("a"), method, &required).await.unwrap();
        let question = person.asked.lock().unwrap().last().cloned().expect("it was asked");
        assert_eq!(question.can_be_kept, kept, "{call:?}");
    }
}

#[tokio::test]
async fn a_question_names_the_program_before_many_variables_and_is_not_kept_if_its_end_is_not_shown() {
    let (gate, person) = gate(Mode::Prompt);
    let many = |count: usize, length: usize| {
        (0..count).map(|at| (format!("BUILD_OPTION_{at}"), "x".repeat(length))).collect::<BTreeMap<_, _>>()
    };
    let secret = |value: &str| BTreeMap::from([("A_TOKEN".to_owned(), value.to_owned())]);
    for (variables, is_moved, is_cut) in [
        (many(8, 280), true, false),
        (many(30, 280), true, true),
        (many(1, 400), false, true),
        // A hidden value may be the name of a file.
        (secret("abc-123"), false, true),
        (secret("$(shell touch x)"), false, true),
    ] {
        let params = serde_json::json!({"command": "node", "args": ["a.js"], "env": variables});
        let call = parsed("exec", params);
        let required = call.required().expect("a valid call");
        person.answer(&[Answer::Deny]);
        gate.ask(&caller("a"), "exec", &required).await.unwrap();
        let question = person.asked.lock().unwrap().last().cloned().expect("it was asked");
        assert_eq!(question.subject.starts_with("node a.js with BUILD_OPTION_0="), is_moved, "{}", question.subject);
        let is_said = question.warnings.iter().any(|warning| warning.starts_with("a part is not shown"));
        assert_eq!((is_said, question.can_be_kept), (is_cut, !is_cut));
    }
}

#[test]
fn a_refused_program_without_an_exact_pattern_is_reported_with_the_narrowest_grant() {
    let (gate, _) = gate(Mode::Strict);
    let extension = caller("a");
    let cure = |params: serde_json::Value| {
        let call = parsed("exec", params);
        let required = call.required().expect("a valid call");
        let (Judgement::Settled(decision) | Judgement::Ask(_, decision)) =
            gate.judge(&extension, "exec", &required).expect("a decision");
        let refusal = decision.refusal("exec", &required.subject);
        gate.note_refused(&extension, &required, decision.reason, &refusal);
        gate.cure(extension.extension(), &refusal.message)
    };
    let allow =
        |grant: &str, more: &str| Some(format!("pi ext grants allow a {grant}  # {more}; no narrower grant covers it"));
    let shell = serde_json::json!({"command": "/bin/sh", "args": ["-c", "echo a | wc"]});
    assert_eq!(cure(shell.clone()), allow("'exec:/bin/sh -c *'", "it runs any code"));
    let commit = serde_json::json!({"command": "git", "args": ["commit", "-m", "two words"]});
    assert_eq!(cure(commit.clone()), allow("'exec:git commit -m *'", "also with other arguments"));
    // No pattern covers the call in another folder, or with code as its input.
    let elsewhere = serde_json::json!({"command": "git", "args": ["commit", "-m", "two words"], "cwd": "/elsewhere"});
    assert_eq!(cure(elsewhere), None);
    // Each suggestion allows its call.
    for (params, pattern) in [(shell, "/bin/sh -c *"), (commit, "git commit -m *")] {
        let scope = Scope { commands: Some(vec![pattern.to_owned()]), ..Scope::default() };
        let grant = Grant { scope: Some(scope), ..Grant::any("exec", "exec") };
        gate.add_grants(&extension.profile, &[grant]).expect("a grant");
        let call = parsed("exec", params);
        let required = call.required().expect("a valid call");
        let (Judgement::Settled(decision) | Judgement::Ask(_, decision)) =
            gate.judge(&extension, "exec", &required).expect("a decision");
        assert!(decision.allowed, "{decision:?}");
    }
}

#[test]
fn a_refusal_that_the_extension_does_not_report_is_listed_once_per_capability() {
    let (gate, _) = gate(Mode::Prompt);
    let refuse = |method: &str, params: serde_json::Value| {
        let call = parsed(method, params);
        let required = call.required().expect("a valid call");
        let refusal = crate::decision::refusal(required.capability, Reason::NonInteractive, method, "it");
        gate.note_refused(&caller("a"), &required, Some(Reason::NonInteractive), &refusal);
    };
    for args in [["-s"], ["-r"]] {
        refuse("exec", serde_json::json!({"command": "uname", "args": args}));
    }
    refuse("fs", serde_json::json!({"op": "access", "path": "/data/probed"}));
    refuse("fs", serde_json::json!({"op": "readFile", "path": "/data/a"}));
    refuse("http", serde_json::json!({"url": "https://example.org/x"}));
    let said = "exec: capability `exec` for it is not granted, and there is no user to ask";
    gate.cure(&"a".into(), "fetch failed").expect("a command");
    gate.cure(&"a".into(), "EACCES: permission denied, open '/data/a'").expect("a command");
    let allow = "pi ext grants allow a 'exec:uname -s \"\"'";
    assert_eq!(gate.unreported_refusals(), [("a".into(), format!("{said}{}{allow}", super::super::CURE))]);
}

#[test]
fn a_failure_is_reported_with_the_grant_of_its_subject() {
    let (gate, _) = gate(Mode::Strict);
    let extension = caller("a");
    let refuse = |method: &str, params: serde_json::Value| {
        let call = parsed(method, params);
        let required = call.required().expect("a valid call");
        let (Judgement::Settled(decision) | Judgement::Ask(_, decision)) =
            gate.judge(&extension, method, &required).expect("a decision");
        let refusal = decision.refusal(method, &required.subject);
        gate.note_refused(&extension, &required, decision.reason, &refusal);
        refusal.message
    };
    let cure = |message: &str| gate.cure(extension.extension(), message);
    let allow = |grant: &str| Some(format!("pi ext grants allow a {grant}"));
    refuse("fs", serde_json::json!({"op": "readFile", "path": "/data/a"}));
    refuse("fs", serde_json::json!({"op": "writeFile", "path": "/data/b*", "data": ""}));
    refuse("fs", serde_json::json!({"op": "copyFile", "from": "src/x", "to": "/data/c"}));
    refuse("fs", serde_json::json!({"op": "readFile", "path": "/home/me/.ssh/id_rsa"}));
    refuse("fs", serde_json::json!({"op": "readFile", "path": "/data/\u{202e}"}));
    refuse("exec", serde_json::json!({"command": "git", "args": ["log", "-1"]}));
    let words = refuse("http", serde_json::json!({"url": "https://example.org:8443/x"}));
    assert_eq!(gate.unreported_refusals(), [], "only a missing user is reported");
    assert_eq!(cure("EACCES: permission denied, open '/data/a'"), allow("read:/data/a"));
    assert_eq!(cure("Cannot save: EACCES: permission denied, open '/data/b*'"), allow("'write:/data/b[*]'"));
    assert_eq!(cure("EACCES: permission denied, copyfile 'src/x' -> '/data/c'"), allow("write:/data/c"));
    assert_eq!(cure("spawn git EACCES"), allow("'exec:git log -1 \"\"'"));
    assert_eq!(cure(&words), allow("http:example.org:8443"));
    assert_eq!(cure("fetch failed"), allow("http:example.org:8443"));
    // No grant allows the first, the second was not denied, the third cannot be shown, and the last was not a denial.
    for message in [
        "EACCES: permission denied, open '/home/me/.ssh/id_rsa'",
        "EACCES: permission denied, open '/data/other'",
        "EACCES: permission denied, open '/data/\u{202e}'",
        "ENOENT: no such file or directory, open '/data/a'",
    ] {
        assert_eq!(cure(message), None, "{message}");
    }
    assert_eq!(gate.cure(&ExtensionId::new("b"), "EACCES: permission denied, open '/data/a'"), None);
    // A trailing process id differs in the next run; a version, or a number elsewhere in the name, does not.
    refuse("fs", serde_json::json!({"op": "writeFile", "path": "/tmp/x/results-10970", "data": ""}));
    refuse("fs", serde_json::json!({"op": "writeFile", "path": "/data/results-10970", "data": ""}));
    refuse("fs", serde_json::json!({"op": "writeFile", "path": "/tmp/x/report-2", "data": ""}));
    let numbered = "'write:/tmp/x/results-*' 'write:/tmp/x/results-*/**'";
    assert_eq!(cure("EACCES: permission denied, open '/tmp/x/results-10970'"), allow(numbered));
    assert_eq!(cure("EACCES: permission denied, open '/data/results-10970'"), allow("write:/data/results-10970"));
    assert_eq!(cure("EACCES: permission denied, open '/tmp/x/report-2'"), allow("write:/tmp/x/report-2"));
    // A permanent denial is revoked, not granted.
    gate.set_never(&extension.profile, &[Grant::any("read", "read")]);
    refuse("fs", serde_json::json!({"op": "readFile", "path": "/data/a"}));
    assert_eq!(cure("EACCES: permission denied, open '/data/a'").as_deref(), Some("pi ext grants revoke a read"));
}
