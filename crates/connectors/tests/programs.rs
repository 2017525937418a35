//! Tests programs under a supervisor: their environment, their restrictions, and that no process is left behind.
//!
//! This test has no test harness, since the supervisor is the same executable.

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
mod support;

#[cfg(target_os = "linux")]
fn main() {
    pijs_connectors::exec::supervisor::enter();
    linux::main();
}

#[cfg(target_os = "linux")]
mod linux {
    use super::support::{Setup, World, ok, op, runner, why};
    use libtest_mimic::{Arguments, Failed, Trial};
    use pijs_connectors::exec::ExecOptions;
    use pijs_hostcall::Grant;
    use pijs_protocol::manifest::Scope;
    use serde_json::{Value, json};
    use std::collections::BTreeSet;
    use std::time::Duration;

    type Case = fn();

    const CASES: &[(&str, Case)] = &[
        ("what_a_program_gets", what_a_program_gets),
        ("children_that_leave_the_session_die_too", children_that_leave_the_session_die_too),
        ("a_signal_can_go_to_the_whole_group", a_signal_can_go_to_the_whole_group),
        (
            "the_exit_is_reported_before_a_background_child_closes_the_output",
            the_exit_is_reported_before_a_background_child_closes_the_output,
        ),
        ("descendants_of_a_program_can_be_signalled_by_pid", descendants_of_a_program_can_be_signalled_by_pid),
        ("a_fork_storm_ends", a_fork_storm_ends),
        ("a_stopped_program_ends", a_stopped_program_ends),
        ("a_pipe_held_by_a_grandchild_does_not_hold_up_the_answer", a_pipe_held_by_a_grandchild),
        ("background_programs_end_with_the_extension", background_programs_end_with_the_extension),
        ("a_program_gets_input_and_is_ended_by_pid", a_program_gets_input_and_is_ended_by_pid),
        ("a_signal_ends_a_program_and_is_reported_by_name", a_signal_ends_a_program_and_is_reported_by_name),
        ("signals_work_where_the_host_ignores_them", signals_work_where_the_host_ignores_them),
        ("another_extension_cannot_signal_a_program", another_extension_cannot_signal_a_program),
        ("alive_reports_whether_a_process_exists", alive_reports_whether_a_process_exists),
        ("set_user_id_programs_stay_without_privileges", set_user_id_programs_stay_without_privileges),
        ("no_program_reads_the_environment_of_this_one", no_program_reads_the_environment_of_this_one),
        ("many_quick_programs_leave_no_zombies", many_quick_programs_leave_no_zombies),
        ("large_output_is_truncated_at_its_beginning", large_output_is_truncated_at_its_beginning),
        ("a_program_may_write_only_where_it_was_told", a_program_may_write_only_where_it_was_told),
        ("the_listing_runs_of_git_are_restricted_like_programs", the_listing_runs_of_git_are_restricted_like_programs),
        ("a_dropped_call_ends_the_tree", a_dropped_call_ends_the_tree),
        ("a_killed_supervisor_is_an_end", a_killed_supervisor_is_an_end),
    ];

    pub(super) fn main() {
        let arguments = Arguments::from_args();
        let trials = CASES
            .iter()
            .map(|(name, case)| {
                Trial::test(*name, move || {
                    std::panic::catch_unwind(case).map_err(|cause| {
                        let words = cause
                            .downcast_ref::<String>()
                            .cloned()
                            .or_else(|| cause.downcast_ref::<&str>().map(|words| (*words).to_owned()));
                        Failed::from(words.unwrap_or_else(|| "panicked".to_owned()))
                    })
                })
            })
            .collect();
        libtest_mimic::run(&arguments, trials).exit();
    }

    fn world() -> World {
        World::supervised(&[runner()])
    }

    fn block<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    fn sh(script: &str) -> Value {
        json!({"command": "sh", "args": ["-c", script]})
    }

    fn with(mut params: Value, more: Value) -> Value {
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    }

    /// Returns whether a process exists and is not a zombie.
    fn lives(pid: &str) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim_start().starts_with('Z'))
    }

    /// Returns the processes with `mark` in their command line.
    fn marked(mark: &str) -> Vec<String> {
        std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
            .filter(|pid| {
                let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&line).contains(mark) && lives(pid)
            })
            .collect()
    }

    /// Waits until `done` returns `true`; fails after at least a minute.
    fn until(what: &str, done: impl Fn() -> bool) {
        // At least a minute, because a busy machine takes long to end a thousand processes.
        for _ in 0..12_000 {
            if done() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("{what}");
    }

    fn what_a_program_gets() {
        let world = world();
        // The program must not inherit this open file.
        let open = rustix::io::dup(std::fs::File::open("/dev/null").unwrap()).unwrap();
        rustix::io::fcntl_setfd(&open, rustix::io::FdFlags::empty()).unwrap();
        let said = ok(world.sync(
            "exec",
            "exec",
            sh("ls /proc/self/fd; echo --; grep -E '^(SigBlk|NoNewPrivs)' /proc/self/status; echo --; \
                (: </dev/tty) 2>&1 | tail -c 40; echo --; pwd; echo --; env; echo --; ulimit -c; cat"),
        ));
        let said = said["stdout"].as_str().unwrap().to_owned();
        let parts: Vec<&str> = said.split("--\n").collect();
        // `ls` itself opens the fourth descriptor.
        assert_eq!(parts[0], "0\n1\n2\n3\n");
        let status: BTreeSet<String> =
            parts[1].lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let expected = ["NoNewPrivs: 1", "SigBlk: 0000000000000000"];
        assert!(status.iter().map(String::as_str).eq(expected), "{status:?}");
        assert!(parts[2].contains("No such device or address"), "{}", parts[2]);
        assert_eq!(parts[3].trim_end(), world.app().to_str().unwrap());
        assert!(!parts[4].contains("canary") && parts[4].contains("PATH="), "{}", parts[4]);
        assert_eq!(parts[5], "0\n");
    }

    /// A program whose descendants leave their session twice and keep running.
    const ESCAPES: &str = "setsid sh -c 'setsid sleep MARK </dev/null >/dev/null 2>&1 & setsid nohup sleep MARK </dev/null \
        >/dev/null 2>&1 & exit' & sleep 0.3; trap '' TERM HUP INT; echo ready; sleep MARK";

    fn children_that_leave_the_session_die_too() {
        let world = world();
        block(async {
            let script = ESCAPES.replace("MARK", "31271");
            let mut call =
                world.start("exec", "exec", with(sh(&script), json!({"stream": true, "token": "t"})), vec![]);
            let pid = call.next().await.output["pid"].as_u64().unwrap().to_string();
            assert_eq!(call.next().await.bytes[0], b"ready\n");
            until("all three sleep", || marked("31271").iter().filter(|pid| !pid.is_empty()).count() >= 4);
            assert!(lives(&pid));
            world.cancel("t");
            assert_eq!(why(&call.next().await), "timeout:cancelled");
            until("some are left", || marked("31271").is_empty());
        });
    }

    fn a_fork_storm_ends() {
        let world = world();
        // Limited to 1023 processes by its own depth, so that a machine without the limit under test survives.
        let script = "f() { if [ $1 -gt 0 ]; then f $(($1-1)) & f $(($1-1)) & fi; sleep 31272; }; f 9";
        let ended = ok(world.sync("exec", "exec", with(sh(script), json!({"timeout": 700}))));
        assert_eq!(ended["killed"], true);
        until("some are left", || marked("31272").is_empty());
    }

    fn a_stopped_program_ends() {
        let world = world();
        let ended = ok(world.sync("exec", "exec", with(sh("kill -STOP $$; sleep 31273"), json!({"timeout": 200}))));
        assert_eq!(ended["killed"], true);
        until("it is left", || marked("31273").is_empty());
    }

    fn a_pipe_held_by_a_grandchild() {
        let world = world();
        let ended = ok(world.sync("exec", "exec", sh("sleep 31274 & echo here")));
        assert_eq!((&ended["stdout"], &ended["code"]), (&json!("here\n"), &json!(0)));
        world.dispatcher.end_extension(world.extension(), &crate::gone());
        until("it is left", || marked("31274").is_empty());
    }

    fn background_programs_end_with_the_extension() {
        let world = world();
        ok(world.sync("exec", "exec", sh("setsid sleep 31275 >/dev/null 2>&1 &")));
        // The shell may exit before the server has been executed.
        until("a server that a program starts outlives it", || !marked("31275").is_empty());
        ok(world.sync("exec", "exec", sh("true")));
        assert!(!marked("31275").is_empty());
        world.dispatcher.end_extension(world.extension(), &crate::gone());
        until("it is left", || marked("31275").is_empty());
    }

    fn a_program_gets_input_and_is_ended_by_pid() {
        let world = world();
        block(async {
            let pid =
                ok(world.sync("exec", "exec", op("spawn", json!({"command": "cat", "stdin": "pipe"}))))["pid"].clone();
            assert!(lives(&pid.to_string()));
            let mut wait = world.start("exec", "exec", op("wait", json!({"pid": pid})), vec![]);
            for word in ["one", "two"] {
                ok(world.run("exec", op("write", json!({"pid": pid, "data": word}))).await);
                assert_eq!(wait.next().await.bytes[0], word.as_bytes());
            }
            // Input larger than a pipe's buffer arrives completely.
            let large = vec![b'x'; 1 << 20];
            let write =
                world.start("exec", "exec", op("write", json!({"pid": pid, "data": {"$bytes": 0}})), vec![large]);
            let mut read = 0;
            while read < 1 << 20 {
                read += wait.next().await.bytes[0].len();
            }
            ok(write.all().await.pop().unwrap());
            assert_eq!(ok(world.sync("exec", "exec", op("kill", json!({"pid": pid, "signal": 0}))))["sent"], true);
            ok(world.run("exec", op("end", json!({"pid": pid}))).await);
            let ended = wait.next().await;
            assert_eq!(ok(ended), json!({"code": 0, "signal": null, "killed": false}));
            assert_eq!(why(&world.run("exec", op("write", json!({"pid": pid, "data": "x"}))).await), "io:ESRCH");
            let missing = ok(world.sync("exec", "exec", op("spawn", json!({"command": "no-such-program-x"}))));
            assert_eq!(missing["error"]["message"], "spawn no-such-program-x ENOENT");
        });
    }

    /// Runs the test again in a process with ignored signals, as in the background of a shell.
    fn signals_work_where_the_host_ignores_them() {
        let script = "trap '' INT QUIT HUP; exec \"$0\" --exact a_signal_ends_a_program_and_is_reported_by_name";
        let this = std::env::current_exe().unwrap();
        let played = std::process::Command::new("sh").args(["-c", script]).arg(this).output().unwrap();
        let said = String::from_utf8_lossy(&played.stdout);
        assert!(played.status.success() && said.contains("1 passed"), "{said}");
    }

    fn a_signal_ends_a_program_and_is_reported_by_name() {
        let world = world();
        block(async {
            let spawn = || {
                ok(world.sync("exec", "exec", op("spawn", json!({"command": "sleep", "args": ["31276"]}))))["pid"]
                    .clone()
            };
            for (signal, name) in [(json!("SIGINT"), "SIGINT"), (json!(9), "SIGKILL"), (Value::Null, "SIGTERM")] {
                let pid = spawn();
                let wait = world.start("exec", "exec", op("wait", json!({"pid": pid})), vec![]);
                assert_eq!(
                    ok(world.sync("exec", "exec", op("kill", json!({"pid": pid, "signal": signal}))))["sent"],
                    true
                );
                let ended = ok(wait.all().await.pop().unwrap());
                assert_eq!(ended, json!({"code": null, "signal": name, "killed": false}));
                assert_eq!(ok(world.sync("exec", "exec", op("kill", json!({"pid": pid}))))["sent"], false);
            }
            let pid = spawn();
            let bad = world.sync("exec", "exec", op("kill", json!({"pid": pid, "signal": "SIGNOPE"})));
            assert_eq!(why(&bad), "invalid_request:schema");
            assert_eq!(why(&world.sync("exec", "exec", op("wait", json!({"pid": pid})))), "invalid_request:sync");
            // A timeout of `wait` ends the whole tree.
            let limited = world.run("exec", op("wait", json!({"pid": pid, "timeout": 50}))).await;
            assert_eq!(ok(limited), json!({"code": null, "signal": "SIGTERM", "killed": true}));
        });
    }

    fn a_signal_can_go_to_the_whole_group() {
        let world = world();
        block(async {
            let script = "sleep 31278 & echo $!; wait";
            let pid =
                ok(world.sync("exec", "exec", op("spawn", json!({"command": "sh", "args": ["-c", script]}))))["pid"]
                    .clone();
            let mut wait = world.start("exec", "exec", op("wait", json!({"pid": pid})), vec![]);
            let said = wait.next().await;
            let inner = String::from_utf8_lossy(&said.bytes[0]).trim().to_owned();
            assert!(lives(&inner));
            let params = json!({"pid": pid, "signal": "SIGKILL", "group": true});
            assert_eq!(ok(world.sync("exec", "exec", op("kill", params)))["sent"], true);
            let ended = ok(wait.all().await.pop().unwrap());
            assert_eq!(ended, json!({"code": null, "signal": "SIGKILL", "killed": false}));
            until("its child got it, too", || !lives(&inner));
        });
    }

    fn the_exit_is_reported_before_a_background_child_closes_the_output() {
        let world = world();
        block(async {
            let go = world.app().join("go");
            let script = format!("(until [ -e {} ]; do sleep 0.02; done; echo late) & echo early", go.display());
            let spawn = op("spawn", json!({"command": "sh", "args": ["-c", script]}));
            let pid = ok(world.sync("exec", "exec", spawn))["pid"].clone();
            let mut wait = world.start("exec", "exec", op("wait", json!({"pid": pid})), vec![]);
            assert_eq!(wait.next().await.bytes[0], b"early\n");
            assert_eq!(ok(wait.next().await), json!({"exit": {"code": 0, "signal": null}}));
            std::fs::write(&go, "").unwrap();
            assert_eq!(wait.next().await.bytes[0], b"late\n");
            assert_eq!(ok(wait.all().await.pop().unwrap()), json!({"code": 0, "signal": null, "killed": false}));
        });
    }

    fn another_extension_cannot_signal_a_program() {
        let world = world();
        let pid =
            ok(world.sync("exec", "exec", op("spawn", json!({"command": "sleep", "args": ["31277"]}))))["pid"].clone();
        assert_eq!(ok(world.stranger("exec", "exec", op("kill", json!({"pid": pid}))))["sent"], false);
        assert!(lives(&pid.to_string()));
        let own = i64::from(std::process::id());
        assert_eq!(ok(world.sync("exec", "exec", op("kill", json!({"pid": own}))))["sent"], false);
        world.dispatcher.end_extension(world.extension(), &crate::gone());
        until("it is left", || !lives(&pid.to_string()));
    }

    fn descendants_of_a_program_can_be_signalled_by_pid() {
        let world = world();
        block(async {
            // A grandchild outside of the group whose parent has exited is a child of the supervisor.
            let script = "setsid sh -c 'sleep 31275 & echo $!' ; exec sleep 31275";
            let spawn = op("spawn", json!({"command": "sh", "args": ["-c", script]}));
            let pid = ok(world.sync("exec", "exec", spawn))["pid"].clone();
            let mut wait = world.start("exec", "exec", op("wait", json!({"pid": pid})), vec![]);
            let said = wait.next().await;
            let inner = String::from_utf8_lossy(&said.bytes[0]).trim().to_owned();
            let kill = |pid: i64| op("kill", json!({"pid": pid, "signal": "SIGKILL"}));
            let number = inner.parse::<i64>().unwrap();
            assert_eq!(ok(world.stranger("exec", "exec", kill(number)))["sent"], false);
            assert!(lives(&inner));
            // This process, which is their ancestor, and process 1 are not descendants.
            for other in [i64::from(std::process::id()), 1] {
                assert_eq!(ok(world.sync("exec", "exec", kill(other)))["sent"], false, "{other}");
            }
            assert_eq!(ok(world.sync("exec", "exec", kill(number)))["sent"], true);
            // An exited process accepts signals until the supervisor has reaped it.
            until("it is gone", || !std::path::Path::new(&format!("/proc/{inner}")).exists());
            assert_eq!(ok(world.sync("exec", "exec", kill(number)))["sent"], false);
            assert_eq!(ok(world.sync("exec", "exec", op("kill", json!({"pid": pid}))))["sent"], true);
        });
    }

    fn alive_reports_whether_a_process_exists() {
        let world = world();
        let told = |pid: i64| ok(world.sync("exec", "exec", op("alive", json!({"pid": pid}))))["error"].clone();
        let here = i64::from(std::process::id());
        assert_eq!(told(here), Value::Null);
        // Numbers that no process can have.
        for pid in [i64::from(i32::MAX), 1 << 40, 0] {
            assert_eq!(told(pid), "ESRCH", "{pid}");
        }
        let pid =
            ok(world.sync("exec", "exec", op("spawn", json!({"command": "sleep", "args": ["31276"]}))))["pid"].clone();
        let pid = pid.as_i64().unwrap();
        assert_eq!(ok(world.stranger("exec", "exec", op("alive", json!({"pid": pid}))))["error"], Value::Null);
        world.dispatcher.end_extension(world.extension(), &crate::gone());
        until("it is gone", || told(pid) == "ESRCH");
    }

    fn set_user_id_programs_stay_without_privileges() {
        let world = world();
        let said = ok(world.sync("exec", "exec", sh("grep NoNewPrivs /proc/self/status")));
        assert_eq!(said["stdout"], "NoNewPrivs:\t1\n");
    }

    fn no_program_reads_the_environment_of_this_one() {
        if rustix::thread::capabilities(None).is_ok_and(|own| own.permitted.is_empty()) {
            // Without Landlock, only a capability of this process distinguishes it from a program of the same user.
            return;
        }
        let world = world();
        let own = std::process::id();
        let said =
            ok(world.sync("exec", "exec", sh(&format!("cat /proc/{own}/environ; cat /proc/self/environ | wc -c"))));
        let words = said["stdout"].as_str().unwrap();
        let length = words.trim().parse::<usize>();
        assert!(length.is_ok_and(|length| length > 0), "nothing but the length of the program's own: {words}");
    }

    fn many_quick_programs_leave_no_zombies() {
        let world = world();
        let here = std::process::id().to_string();
        let before = zombies(&here);
        for _ in 0..100 {
            ok(world.sync("exec", "exec", json!({"command": "true"})));
        }
        // Orphans that exit while their program runs are reaped as well.
        let said = ok(world.sync(
            "exec",
            "exec",
            sh("for i in $(seq 200); do (true &) ; done; sleep 1.5; ps -e -o stat= | grep -c ^Z"),
        ));
        let left: u32 = said["stdout"].as_str().unwrap().trim().parse().unwrap();
        assert!(left < 100, "{left} zombies");
        until("zombies are left", || zombies(&here) <= before);
    }

    fn zombies(parent: &str) -> usize {
        let stats = std::fs::read_dir("/proc").unwrap().flatten();
        let stats = stats.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
        stats
            .filter(|stat| {
                let mut fields = stat.rsplit(')').next().unwrap().split_whitespace();
                fields.next() == Some("Z") && fields.next() == Some(parent)
            })
            .count()
    }

    fn large_output_is_truncated_at_its_beginning() {
        let world = world();
        let said = ok(world.sync("exec", "exec", sh("head -c 40000000 /dev/zero | tr '\\0' x; echo end")));
        let text = said["stdout"].as_str().unwrap();
        assert_eq!((text.len(), said["truncated"].as_bool(), text.ends_with("xend\n")), (16 << 20, Some(true), true));
    }

    /// Returns a writable folder that only this process uses.
    fn writable_of_this_test() -> std::path::PathBuf {
        std::env::temp_dir().join(format!("pijs-writable-of-a-test-{}", std::process::id()))
    }

    fn a_program_may_write_only_where_it_was_told() {
        let world = Setup {
            exec: |options| {
                let writable = Some(vec![writable_of_this_test()]);
                ExecOptions { writable, ..options.supervised() }
            },
            ..Setup::new(&[runner()])
        };
        let folder = writable_of_this_test();
        std::fs::create_dir_all(&folder).unwrap();
        let world = world.build();
        let inside = folder.join("x");
        let script = format!(
            "echo a > {} && echo wrote; echo b > y || echo refused; cat src/a.txt; echo >/dev/null && echo null",
            inside.display()
        );
        let said = ok(world.sync("exec", "exec", sh(&script)));
        assert_eq!(said["stdout"], "wrote\nrefused\nhellonull\n", "{said}");
        assert!(!world.app().join("y").exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// Returns a folder with a `git` that only this process uses.
    fn git_of_this_test() -> std::path::PathBuf {
        std::env::temp_dir().join(format!("pijs-git-of-a-test-{}", std::process::id()))
    }

    fn the_listing_runs_of_git_are_restricted_like_programs() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = git_of_this_test();
        let git = folder.join("git");
        std::fs::create_dir_all(&folder).unwrap();
        let script = "#!/bin/sh\nW=$(grep NoNewPrivs /proc/self/status | tr -d '[:space:]')\n\
             echo \"$1 $W fetches=${GIT_NO_LAZY_FETCH-yes} protocol=${GIT_ALLOW_PROTOCOL-any}\" >> log\n";
        std::fs::write(&git, script).unwrap();
        std::fs::set_permissions(&git, std::fs::Permissions::from_mode(0o755)).unwrap();
        let commands = Scope { commands: Some(vec!["git".into()]), ..Scope::default() };
        let setup = Setup {
            exec: |options| {
                let mut options = options.supervised();
                options.env.insert("PATH".to_owned(), format!("{}:/usr/bin:/bin", git_of_this_test().display()));
                options
            },
            ..Setup::new(&[Grant::scoped("g", "exec", commands)])
        };
        let world = setup.build();
        let said = ok(world.sync("exec", "exec", json!({"command": "git", "args": ["status"]})));
        assert_eq!(said["code"], 0, "{said}");
        let log = world.app().join("log");
        let runs = [
            "rev-parse NoNewPrivs:1 fetches=1 protocol=none",
            "config NoNewPrivs:1 fetches=1 protocol=none",
            "ls-files NoNewPrivs:1 fetches=1 protocol=none",
            "status NoNewPrivs:1 fetches=yes protocol=any",
        ];
        assert_eq!(std::fs::read_to_string(&log).unwrap().lines().collect::<Vec<_>>(), runs);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    fn a_dropped_call_ends_the_tree() {
        let world = world();
        block(async {
            let script = ESCAPES.replace("MARK", "31278");
            let mut call = world.start("exec", "exec", with(sh(&script), json!({"stream": true})), vec![]);
            call.next().await;
            assert_eq!(call.next().await.bytes[0], b"ready\n");
            call.drop_it();
            tokio::task::yield_now().await;
            until("some are left", || marked("31278").is_empty());
        });
    }

    fn a_killed_supervisor_is_an_end() {
        let world = world();
        let script = "kill -9 $PPID; exec sleep 31279";
        let ended = ok(world.sync("exec", "exec", with(sh(script), json!({"timeout": 8000}))));
        // The supervisor may be killed before or after its message that the program runs.
        assert!(ended["signal"] == "SIGKILL" || ended["error"]["errno"] == "EIO", "{ended}");
    }
}

#[cfg(target_os = "linux")]
fn gone() -> pijs_protocol::HostcallError {
    pijs_protocol::Termination::Crashed { detail: "killed by SIGKILL".to_owned() }.error()
}
