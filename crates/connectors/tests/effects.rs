//! Tests the connectors behind a real gate: file access within the grants, programs that are stopped with their tree, redirects
//! to servers without a grant.

mod support;

use pijs_protocol::{ErrorCode, HostcallError};
use serde_json::json;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{World, hosts, ok, runner, why, writer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

#[test]
fn files_are_written_read_listed_and_removed() {
    let world = World::new(&[writer()]);
    ok(world.write(json!({"op": "mkdir", "path": "x/y/z", "recursive": true})));
    ok(world.write(json!({"op": "writeFile", "path": "x/y/f.txt", "data": "one"})));
    ok(world.write(json!({"op": "appendFile", "path": "x/y/f.txt", "data": " two"})));
    assert_eq!(ok(world.read(json!({"op": "readFile", "path": "x/y/f.txt", "encoding": "utf8"})))["text"], "one two");
    ok(world.write(json!({"op": "copyFile", "from": "x/y/f.txt", "to": "x/copy"})));
    ok(world.write(json!({"op": "rename", "from": "x/copy", "to": "x/moved"})));
    let listed = ok(world.read(json!({"op": "readdir", "path": "x", "recursive": true})));
    let names: Vec<_> = listed["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| format!("{}/{}", e["parent"].as_str().unwrap(), e["name"].as_str().unwrap()))
        .collect();
    assert_eq!(names, ["/moved", "/y", "y/f.txt", "y/z"]);
    let stat = ok(world.read(json!({"op": "stat", "path": "x/moved"})));
    assert_eq!((&stat["kind"], &stat["size"]), (&json!("file"), &json!(7)));
    ok(world.write(json!({"op": "cp", "from": "x", "to": "x2", "recursive": true})));
    ok(world.write(json!({"op": "rm", "path": "x", "recursive": true})));
    assert_eq!(ok(world.read(json!({"op": "exists", "path": "x"})))["exists"], false);
    assert_eq!(ok(world.read(json!({"op": "exists", "path": "x2/y/f.txt"})))["exists"], true);
    let made = ok(world.write(json!({"op": "mkdtemp", "prefix": "t-"})));
    assert!(made["path"].as_str().unwrap().len() == 8);
}

#[test]
fn handles_belong_to_their_extension_and_close_with_it() {
    let world = World::new(&[writer()]);
    let fd = ok(world.write(json!({"op": "open", "path": "h", "flags": "w+"})))["fd"].clone();
    assert_eq!(ok(world.write(json!({"op": "write", "fd": fd, "data": "abcdef"})))["bytesWritten"], 6);
    let read = world.read(json!({"op": "read", "fd": fd, "length": 3, "position": 2}));
    assert_eq!(read.bytes[0], b"cde");
    ok(world.write(json!({"op": "ftruncate", "fd": fd, "len": 1})));
    assert_eq!(ok(world.read(json!({"op": "fstat", "fd": fd})))["size"], 1);
    let reader = ok(world.read(json!({"op": "open", "path": "h"})))["fd"].clone();
    assert_eq!(why(&world.write(json!({"op": "write", "fd": reader, "data": "x"}))), "io:EBADF");
    assert_eq!(why(&world.stranger("read", "fs", json!({"op": "fstat", "fd": fd}))), "io:EBADF");
    let gone = HostcallError::new(ErrorCode::Internal, "the extension is gone");
    world.dispatcher.end_extension(world.extension(), &gone);
    assert_eq!(why(&world.read(json!({"op": "fstat", "fd": fd}))), "io:EBADF");
}

#[test]
fn errors_have_the_format_of_node() {
    let world = World::new(&[writer()]);
    let error = world.read(json!({"op": "readFile", "path": "nope"})).error.unwrap();
    assert_eq!(error.message, "ENOENT: no such file or directory, open 'nope'");
    assert_eq!(
        (&error.details["errno"], &error.details["syscall"], &error.details["path"]),
        (&json!("ENOENT"), &json!("open"), &json!("nope"))
    );
    assert_eq!(why(&world.write(json!({"op": "mkdir", "path": "src"}))), "io:EEXIST");
    assert_eq!(why(&world.write(json!({"op": "rmdir", "path": "src"}))), "io:ENOTEMPTY");
    let deep = vec!["d"; 300].join("/");
    assert_eq!(why(&world.write(json!({"op": "mkdir", "path": deep, "recursive": true}))), "io:EINVAL");
    assert!(!world.app().join("d").exists(), "nothing is made of it");
    assert_eq!(why(&world.read(json!({"op": "readdir", "path": "src/a.txt"}))), "io:ENOTDIR");
    assert_eq!(why(&world.read(json!({"op": "readFile", "path": "src"}))), "io:EISDIR");
}

#[test]
fn no_verb_escapes_through_a_name_or_a_link() {
    let world = World::new(&[writer()]);
    let app = world.app();
    let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, app.join(name)).unwrap();
    link("../outside", "dir");
    link("../outside/secret", "file");
    link(app.parent().unwrap().join("outside/new").to_str().unwrap(), "dangling");
    link("/proc/self", "proc");
    link("src", "inside");
    link("loop", "loop");
    for path in [
        "../outside/secret",
        "dir/secret",
        "file",
        "proc/environ",
        "/etc/passwd",
        "src/../../outside/secret",
        "dir/none",
        "../outside/none",
    ] {
        for op in ["readFile", "stat", "readdir", "access", "realpath", "open", "statfs"] {
            assert_eq!(
                why(&world.read(json!({"op": op, "path": path}))),
                if path.starts_with("proc") { "denied:protected_path" } else { "denied:no_grant" },
                "{op} {path}"
            );
        }
        assert!(
            why(&world.write(json!({"op": "writeFile", "path": path, "data": "x"}))).starts_with("denied:"),
            "{path}"
        );
        assert!(
            why(&world.write(json!({"op": "mkdir", "path": format!("{path}/x"), "recursive": true})))
                .starts_with("denied:"),
            "{path}"
        );
    }
    for params in [
        json!({"op": "rename", "from": "src/a.txt", "to": "dir/a.txt"}),
        json!({"op": "link", "from": "dir/secret", "to": "stolen"}),
        json!({"op": "copyFile", "from": "file", "to": "stolen"}),
        json!({"op": "rm", "path": "dir/secret"}),
        json!({"op": "chmod", "path": "file", "mode": 0}),
        json!({"op": "truncate", "path": "file"}),
        json!({"op": "utimes", "path": "file", "atimeMs": 0, "mtimeMs": 0}),
        json!({"op": "writeFile", "path": "dangling", "data": "x"}),
        json!({"op": "symlink", "target": "../../outside/secret", "path": "src/l"}),
        json!({"op": "symlink", "target": "../dir/secret", "path": "src/l"}),
        json!({"op": "symlink", "target": "../dir/none", "path": "src/l"}),
        json!({"op": "unlink", "path": "dir/secret"}),
    ] {
        assert!(why(&world.write(params.clone())).starts_with("denied:"), "{params}");
    }
    assert_eq!(std::fs::read_to_string(app.join("../outside/secret")).unwrap(), "canary");
    assert_eq!(std::fs::read_dir(app.join("../outside")).unwrap().count(), 1);
    assert_eq!(ok(world.read(json!({"op": "readFile", "path": "inside/a.txt", "encoding": "utf8"})))["text"], "hello");
    assert_eq!(why(&world.read(json!({"op": "readFile", "path": "loop"}))), "io:ELOOP");
    // The link itself can still be removed or read.
    assert_eq!(ok(world.read(json!({"op": "readlink", "path": "dir"})))["target"], "../outside");
    ok(world.write(json!({"op": "unlink", "path": "dir"})));
}

#[test]
fn what_is_outside_looks_the_same_whether_it_exists() {
    let world = World::new(&[]);
    let words = |path: &str| world.read(json!({"op": "stat", "path": path})).error.unwrap().message.replace(path, "P");
    assert_eq!(words("../outside/secret"), words("../outside/nothing"));
}

#[test]
fn a_link_inside_does_not_open_a_protected_place() {
    let world = World::new(&[writer()]);
    std::fs::create_dir_all(world.app().join(".git/hooks")).unwrap();
    std::os::unix::fs::symlink(".git/hooks", world.app().join("innocent")).unwrap();
    assert_eq!(
        why(&world.write(json!({"op": "writeFile", "path": "innocent/pre-commit", "data": "x"}))),
        "denied:protected_path"
    );
    assert_eq!(why(&world.write(json!({"op": "rename", "from": ".git", "to": "g"}))), "denied:protected_path");
    assert_eq!(std::fs::read_dir(world.app().join(".git/hooks")).unwrap().count(), 0);
}

#[test]
fn a_moved_folder_takes_along_only_links_that_could_be_made_at_its_new_place() {
    let world = World::new(&[writer()]);
    let tmp = world.root().join("tmp");
    let at = |name: &str| tmp.join(name).to_str().unwrap().to_owned();
    let rename = |from: &str, to: &str| world.write(json!({"op": "rename", "from": from, "to": to}));
    let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, tmp.join(name)).unwrap();
    std::fs::create_dir_all(tmp.join("a/bin")).unwrap();
    std::fs::write(tmp.join("a/tool"), "tool").unwrap();
    // What is moved along may be where the extension only writes, and so may a missing file.
    link("../tool", "a/bin/tool");
    link("./none", "a/none");
    ok(rename(&at("a"), &at("b")));
    link("../../app/src/a.txt", "b/source");
    ok(rename(&at("b"), &at("a")));
    ok(world.write(json!({"op": "mkdir", "path": at("deep")})));
    let error = rename(&at("a"), &at("deep/a")).error.unwrap();
    assert_eq!((&error.details["reason"], &error.details["capability"]), (&json!("scope"), &json!("read")));
    assert!(error.details["hint"].as_str().unwrap().contains("grant read"), "{error:?}");
    std::fs::remove_file(tmp.join("a/source")).unwrap();
    link("bin/../tool", "a/steps");
    assert!(rename(&at("a"), &at("b")).error.unwrap().details["hint"].as_str().unwrap().contains("`..`"));
    std::fs::remove_file(tmp.join("a/steps")).unwrap();
    ok(rename(&at("a"), &at("deep/a")));
}

#[test]
fn a_folder_with_too_many_links_stays() {
    let world = World::new(&[writer()]);
    std::fs::create_dir(world.app().join("many")).unwrap();
    for number in 0..=10_000 {
        std::os::unix::fs::symlink("a", world.app().join(format!("many/{number}"))).unwrap();
    }
    let error = world.write(json!({"op": "rename", "from": "many", "to": "other"})).error.unwrap();
    assert_eq!(error.details["errno"], "EFBIG");
    assert!(error.details["hint"].as_str().unwrap().contains("10000"), "{error:?}");
}

#[test]
fn pipes_are_refused_and_do_not_block() {
    let world = World::new(&[writer()]);
    rustix::fs::mkfifoat(rustix::fs::CWD, world.app().join("pipe"), rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    assert_eq!(why(&world.read(json!({"op": "readFile", "path": "pipe"}))), "io:EOPNOTSUPP");
}

/// No verb accesses anything outside of the project while a folder is exchanged for a link that leads out.
#[test]
fn a_race_of_folder_and_link_never_escapes() {
    let world = World::new(&[writer()]);
    let app = world.app();
    std::fs::create_dir(app.join("d")).unwrap();
    std::fs::write(app.join("d/secret"), "mine").unwrap();
    std::os::unix::fs::symlink("../outside", app.join("l")).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, app.join("d"), CWD, app.join("l"), RenameFlags::EXCHANGE).unwrap();
            }
        });
        for round in 0..2000 {
            let read = world.read(json!({"op": "readFile", "path": "d/secret", "encoding": "utf8"}));
            assert_ne!(read.output["text"], "canary", "round {round}");
            let _ = world.write(json!({"op": "writeFile", "path": "d/new", "data": "x"}));
            let _ = world.write(json!({"op": "unlink", "path": "d/new"}));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(std::fs::read_dir(app.join("../outside")).unwrap().count(), 1);
}

#[tokio::test]
async fn programs_get_their_arguments_verbatim_and_a_clean_environment() {
    let world = World::new(&[runner()]);
    let said = ok(world.run("exec", json!({"command": "printf", "args": ["%s|", "a b", "$(id)", "-x", "n\n"]})).await);
    assert_eq!(
        (&said["stdout"], &said["code"], &said["killed"]),
        (&json!("a b|$(id)|-x|n\n|"), &json!(0), &json!(false))
    );
    let env = ok(world.run("exec", json!({"command": "env"})).await)["stdout"].as_str().unwrap().to_owned();
    assert!(env.contains("PATH=") && !env.contains("canary"), "{env}");
    let fed = ok(world.sync("exec", "exec", json!({"command": "cat", "input": "in"})));
    assert_eq!(fed["stdout"], "in");
    let missing = ok(world.run("exec", json!({"command": "no-such-program-x"})).await);
    assert_eq!(
        (&missing["code"], &missing["stdout"], &missing["error"]["errno"]),
        (&json!(1), &json!(""), &json!("ENOENT"))
    );
    for (name, value) in
        [("LD_PRELOAD", "/x.so"), ("PATH", "/evil"), ("NODE_OPTIONS", "-r x"), ("git_ssh_command", "x")]
    {
        let refused = world.run("exec", json!({"command": "env", "env": {name: value}})).await;
        assert_eq!(why(&refused), "denied:scope", "{name}");
    }
    // Variables that the extension set for itself, and not for this program, are not passed.
    let own = json!({"command": "env", "inherits": true, "env": {"LD_PRELOAD": "/x.so", "SET": "1"}});
    let own = ok(world.run("exec", own).await)["stdout"].as_str().unwrap().to_owned();
    assert!(own.contains("SET=1") && !own.contains("LD_PRELOAD"), "{own}");
    let added = json!({"command": "env", "env": {"PATH": "/evil:/usr/bin:/bin"}});
    let added = ok(world.run("exec", added).await)["stdout"].as_str().unwrap().to_owned();
    assert!(added.lines().any(|line| line == "PATH=/usr/bin:/bin"), "{added}");
    assert_eq!(why(&world.run("exec", json!({"command": "ls", "args": ["a\0b"]})).await), "invalid_request:schema");
    assert_eq!(why(&world.run("exec", json!({"command": "ls", "cwd": "../outside"})).await), "denied:no_grant");
}

#[tokio::test]
async fn a_deadline_ends_a_program_that_ignores_it_with_its_children() {
    let world = World::new(&[runner()]);
    let pids = world.app().join("pids");
    let script =
        "trap '' TERM; (trap '' TERM; while :; do sleep 0.05; done) & echo $$ $! > pids; while :; do sleep 0.05; done";
    let ended = ok(world.run("exec", json!({"command": "sh", "args": ["-c", script], "timeout": 3000})).await);
    assert_eq!((&ended["killed"], &ended["code"]), (&json!(true), &json!(0)));
    let pids = std::fs::read_to_string(&pids).unwrap();
    for pid in pids.split_whitespace() {
        let state = || std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).ok();
        let gone = || state().is_none_or(|stat| stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'));
        for _ in 0..6_000 {
            if gone() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(gone(), "{pid} is alive");
    }
}

#[tokio::test]
async fn too_much_output_ends_a_program_when_the_caller_set_a_limit() {
    let world = World::new(&[runner()]);
    let ended = ok(world.run("exec", json!({"command": "yes", "maxBuffer": 1000})).await);
    assert_eq!((ended["killed"].as_bool(), ended["stdout"].as_str().unwrap().len()), (Some(true), 1000));
}

#[test]
fn the_environment_is_read_by_name() {
    let world = World::new(&[]);
    assert_eq!(
        ok(world.sync("env", "env", json!({"op": "get", "names": ["HOME", "TERM"]})))["values"],
        json!({"HOME": "/nowhere"})
    );
    assert_eq!(why(&world.sync("env", "env", json!({"op": "get", "names": ["SECRET_TOKEN"]}))), "denied:no_grant");
}

/// Starts a server that answers every connection with `response`; returns its port and the received requests.
async fn server(response: String) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let read = stream.read(&mut request).await.unwrap_or(0);
            into.lock().unwrap().push(String::from_utf8_lossy(&request[..read]).into_owned());
            let _ = stream.write_all(response.as_bytes()).await;
        }
    });
    (port, seen)
}

#[tokio::test]
async fn a_redirect_to_an_unnamed_private_address_is_refused_and_not_reached() {
    let (inner, inner_seen) =
        server("HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\ncanary".into()).await;
    let (outer, outer_seen) = server(format!(
        "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:{inner}/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    ))
    .await;
    let get = |port: u16| json!({"url": format!("http://127.0.0.1:{port}/"), "headers": {"authorization": "x"}});
    // Any host is allowed, but only the outer server's literal address is named.
    let world1 = World::new(&[hosts(&["*".into(), format!("127.0.0.1:{outer}")])]);
    assert_eq!(why(&world1.run("http", get(outer)).await), "denied:blocked_address");
    assert_eq!(why(&world1.run("http", get(inner)).await), "denied:blocked_address");
    let by_name = json!({"url": format!("http://localhost:{inner}/")});
    assert_eq!(why(&world1.run("http", by_name).await), "denied:blocked_address");
    assert!(inner_seen.lock().unwrap().is_empty());
    assert_eq!(outer_seen.lock().unwrap().len(), 1);
    // If both are named, the redirect is followed without the credentials of the first origin.
    let world2 = World::new(&[hosts(&[format!("127.0.0.1:{inner}"), format!("127.0.0.1:{outer}")])]);
    let result = world2.run("http", get(outer)).await;
    assert_eq!((result.bytes[0].as_slice(), &result.output["redirected"]), (b"canary".as_slice(), &json!(true)));
    assert!(outer_seen.lock().unwrap()[1].contains("authorization"));
    assert!(!inner_seen.lock().unwrap()[0].contains("authorization"));
}

#[tokio::test]
async fn a_redirect_loop_ends_and_forbidden_headers_are_refused() {
    let (port, seen) =
        server("HTTP/1.1 302 Found\r\nlocation: /again\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".into()).await;
    let world = World::new(&[hosts(&[format!("127.0.0.1:{port}")])]);
    let url = format!("http://127.0.0.1:{port}/");
    assert_eq!(why(&world.run("http", json!({"url": url})).await), "io:ETOOMANYREDIRECTS");
    assert_eq!(seen.lock().unwrap().len(), 6);
    assert_eq!(ok(world.run("http", json!({"url": url, "redirect": "manual"})).await)["status"], 302);
    for header in ["Host", "Transfer-Encoding", "Proxy-Authorization"] {
        let refused = world.run("http", json!({"url": url, "headers": {header: "x"}})).await;
        assert_eq!(why(&refused), "invalid_request:schema", "{header}");
    }
}
