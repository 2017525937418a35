//! Runs the fuzz targets on stable Rust: regressions first, then seeds and their mutations, a bounded number of times.
//!
//! `PIJS_FUZZ_CASES` sets the number for each target (300 by default; `cargo xtask nightly` and `fuzz/` run far more).

use pijs_artifact::{Artifact, COMPONENT_SCHEME, Module, encode};
use pijs_protocol::artifact::{ArtifactMetadata, EngineBuild};
use pijs_readers::TARGETS;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(folder: &Path) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("readable")).collect()
}

/// Returns the core module of a guest that judges text, with the description of its world.
fn guest() -> Vec<u8> {
    pijs_wasm::text::core_module(include_str!("../../../fixtures/guests/text/verdict.wat"))
}

/// Returns an artifact that contains a component.
fn artifact_of_component() -> Vec<u8> {
    let compiled = pijs_wasm::compile(&guest()).expect("a component");
    let engine = EngineBuild { name: "test".into(), version: "0".into(), bytecode: 0, target: "test".into() };
    let module = Module {
        specifier: format!("{COMPONENT_SCHEME}0/a.wasm"),
        source: "AGFzbQ0AAQA=".to_owned(),
        source_map: None,
        // A prefix of the code is as good as all of it, and lets mutations reach the rest of the file.
        bytecode: Some(compiled.code[..256].to_vec().into()),
    };
    let mut metadata = ArtifactMetadata::new("a", "1.0.0", engine);
    metadata.host_imports = compiled.imports;
    encode(&Artifact { metadata, modules: vec![module] })
}

/// Returns valid inputs of a target, so that mutations pass the first check.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    match target {
        "artifact" => return vec![artifact_of_component()],
        "component" => {
            let component = pijs_wasm::compile(&guest()).expect("a component").component;
            return vec![guest(), component];
        }
        _ => {}
    }
    let texts: &[&str] = match target {
        "capability_manifest" => &[
            r#"{"schema":"pi.ext.cap.v1","capabilities":[{"capability":"read","methods":["tool"],"scope":{"paths":["src/**"]}}]}"#,
        ],
        "canonical_json" => {
            &[r#"{"path":"src/ä","n":[1,-0.0,1e300,9007199254740993],"data":{"$bytes":0},"\u0000":"\ud834\udd1e"}"#]
        }
        "lock" => &[concat!(
            r#"{"lockfileVersion":1,"registries":{"":"https://r.example/"},"packages":{"npm:a":{"source":"npm:a@^1","version":"1.0.0","#,
            r#""manifest":"00","tree":"00","packages":{"":{"name":"a","version":"1.0.0","tarball":"a/-/a-1.0.0.tgz","integrity":"sha512-AA=="},"#,
            r#""node_modules/@b/c":{"name":"@b/c","version":"2.0.0","tarball":"@b/c/-/c-2.0.0.tgz","integrity":"sha512-AA=="}}}}}"#
        )],
        "package_json" => &[
            r#"{"name":"a","version":"1.0.0","main":"index.ts","pi":{"extensions":["./src/*.ts","!./src/b.ts","extensions/b"]}}"#,
            r#"{"pi":{"extensions":["../outside.ts","/etc/passwd","{src,..}/**"]},"main":"../outside.ts"}"#,
        ],
        "session" => &[concat!(
            r#"{"type":"session","version":3,"id":"s","timestamp":"2026-01-02T03:04:05.678Z","cwd":"/p"}"#,
            "\n",
            r#"{"type":"message","id":"a","parentId":null,"timestamp":"2026-01-02T03:04:05.678Z","message":{"role":"user","content":"x","timestamp":1}}"#,
            "\n",
            r#"{"type":"custom","id":"b","parentId":"a","timestamp":"2026-01-02T03:04:05.678Z","customType":"t","data":{}}"#,
            "\n"
        )],
        "url_policy" => {
            &["https://example.org/a", "http://x.example.net:8443", "https://[::ffff:127.0.0.1]:1/", "http://0x7f.1/"]
        }
        "mcp" => &[
            concat!(
                r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}"#,
                "\n",
                r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"again: \ud83d\ude00"},{"type":"image","data":"AAAA","mimeType":"image/png"}],"isError":false}}"#,
                "\n",
                r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"total":2,"message":"half"}}"#,
                "\n"
            ),
            "{\"name\":\"a-b\",\"result\":{\"contents\":[{\"uri\":\"a:b\",\"text\":\"x\"}],\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":\"y\"}}]}}\r\n",
        ],
        "mcp_json" => &[
            r#"{"mcpServers":{"a-b":{"command":"node","args":["s.mjs","${HOME}"],"env":{"K":"v"},"timeout":3,"exposure":"direct"},"a_b":{"url":"https://a.example/mcp","headers":{"x":"y"},"oauth":{}}}}"#,
        ],
        "npmrc" => {
            &["registry=https://r.example/\n@corp:registry=https://c.example/\n//r.example/:_authToken=${TOKEN}\n"]
        }
        "patterns" => &[
            "im\n^\\s*(?:const|let) x\\b.{0,20}$\nlet x = 1;\r\nconst x\u{2028}",
            "v\n(?=[^]*[\\w--a])(?=[^]*\\p{Lu}{2,9})\nb😀\u{17F}AB",
            "\n(?<!ab)(a|b)*a(a|b){12}(?!c)\\1\nabababaabbabbbaabababaababababababab",
            "iu\n\\bſk[^\\W\\d]?\\uD83D\\uDE00\nSK😀",
        ],
        "rules" => &[
            "dabfaabc\n---\ncondition: '(?m)^\\s*let x\\b'\nwhere: code\nsettle: word\n---\nNo.\n===\na\n```js\nlet x;\n```\nlet y",
            "dcdccde\n---\ncondition: [TODO, '\\bFIXME$', 'a(?!b)']\nscope: tool:edit(*.ts), tool:write(*.ts), text\n---\nNo.\n===\n{\"path\":\"src/a.ts\",\"edits\":[{\"oldText\":\"TODO\",\"newText\":\"TO\\u0044O ab\\nFIXME\"}]}",
            "daafagh\n---\nname: a\ntrigger: 'sk|ſ'\nflags: i\nrepeat: after-gap\nrepeatGap: 0\nmaxFirings: 2\n---\nNo.\n===\na SK\n",
            "eaadba\n---\ncondition: ['[^\\d]{3}\\b', 'z{9}']\nglobs: ['src/**']\nwhere: any\n---\nNo.\n===\n{\"input\":\"*** Begin Patch\\n*** Update File: src/a.rs\\n-abc\\n+abd f(1)\\n*** End Patch\"}",
            "ebbbbzz\n---\ncondition: '(?is)x.{2}\\s+y|é+$'\nglobs: a.ts\ninterruptMode: always\n---\nNo.\n===\n{\"content\":\"X é\\ty\\r\\n\\u00e9\",\"path\":\"a.ts\"}",
            "ecceAa\n---\nttsr_trigger: 'rm -rf /(?!\\w)'\nscope: tool:bash, thinking\nsettle: word\n---\nNo.\n===\n{\"command\":\"rm -rf \\/ \",\"n\":[1,{\"a\":\"b\"}]}",
            "dzzaza\n---\ncondition: ['\\bas an AI\\b', '(a+)+$', '\\p{Lu}']\nwhere: prose\nscope: thinking\ncooldown: 1\n---\nNo.\n===\nas an AI, aaaa\n~~~\nAs\n~~~\nas an AI",
        ],
        "redactor" => &["a \u{fffd} b", "Bearer \u{fffd}", "{\"api_key\":\"\u{fffd}\"}"],
        "sanitiser" => &["\u{1b}[31mred\u{1b}[0m \u{1b}]8;;x\u{7}y", "\u{1b}[38;2;1;2;3m👨\u{200d}👩\u{202e}"],
        "scope" => &["src/**\n/project/src/a.ts", "{a,b}{c,d}**\n/project/x", "*.example.org:443\napi.example.org"],
        "source" => &["npm:@corp/tool@^1.2", "git:github.com/o/n@v1", "../x", "https://example.org/a/b#main"],
        "sse" => &["event: a\ndata: {}\n\ndata: x\r\n\r\n: c\rdata: y\r\r", "\u{feff}data: 1\n\n"],
        "tape" => &[concat!(
            r#"{"realm":0,"kind":"header","value":{"schema":"pi.ext.tape.v1","protocol":"1.0","pi":"0.1.0","engine":{"name":"q","version":"1","#,
            r#""bytecode":1,"target":"x"},"host_modules":"sha256:00","seed":7,"epoch_ms":0,"clock_step_us":1,"time_zone":"UTC","#,
            r#""isolation":"thread","profile":"0.87.1","policy":"prompt"}}"#,
            "\n",
            r#"{"realm":1,"kind":"open","value":{"options":{"extension":"npm:a","limits":{"memory_bytes":1,"stack_bytes":1,"jobs":1,"fuel":1,"#,
            r#""stream_fuel":1,"timers":1},"seed":7,"clock_step_us":1,"time_zone":"UTC","facts":{}},"now":{"epoch_ms":0,"elapsed_us":0},"modules":[]}}"#,
            "\n",
            r#"{"realm":1,"kind":"delivery","value":{"seq":1,"now":{"epoch_ms":0,"elapsed_us":0},"task":{"message":{"type":"timer_fired","payload":{"timer":1}}}}}"#,
            "\n",
            r#"{"realm":1,"kind":"yield","value":{"messages":[],"stream":"continue","usage":{"jobs":0,"fuel":0,"clock_reads":0,"random_draws":0,"#,
            r#""heap_bytes":0}},"heap":1,"digest":"00"}"#,
            "\n",
        )],
        "ledger" => &["{\"schema\":\"pi.ext.log.v1\",\"data\":{\"chain\":{\"seq\":0,\"prev\":\"\",\"hash\":\"\"}}}\n"],
        "webassembly" => &[
            "\0asm\u{1}\0\0\0\u{1}\u{8}\u{2}`\0\0`\0\u{1}\u{7f}\u{3}\u{3}\u{2}\0\u{1}\u{5}\u{3}\u{1}\0\u{1}\u{7}\u{5}\u{1}\u{1}g\0\u{1}\u{8}\u{1}\0\u{a}\u{10}\u{2}\u{7}\0\u{3}@\u{c}\0\u{b}\u{b}\u{6}\0A\u{1}@\0\u{b}\0\u{13}\u{4}name\u{1}\u{4}\u{1}\0\u{1}f\u{3}\u{6}\u{1}\0\u{1}\0\u{1}l",
            "\0asm\u{1}\0\0\0\u{1}\u{c}\u{3}`\u{1}\u{7f}\0`\0\u{1}\u{7f}`\0\0\u{2}\u{7}\u{1}\u{1}m\u{1}f\0\0\u{3}\u{3}\u{2}\u{1}\u{2}\u{4}\u{4}\u{1}p\0\u{3}\u{6}\u{6}\u{1}\u{7f}\u{1}A\u{5}\u{b}\u{7}\u{9}\u{2}\u{1}a\0\u{1}\u{1}b\0\u{2}\u{9}\u{7}\u{1}\0A\0\u{b}\u{1}\u{1}\u{a}\u{16}\u{2}\u{c}\0A\u{2}$\0A\u{1}\u{10}\0#\0\u{b}\u{7}\0A\u{1}\u{11}\u{2}\0\u{b}\0\u{e}\u{4}name\u{1}\u{7}\u{2}\0\u{1}i\u{1}\u{1}a",
        ],
        _ => &[],
    };
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn mutated(seeds: Vec<Vec<u8>>) -> BoxedStrategy<Vec<u8>> {
    let any_bytes = prop::collection::vec(any::<u8>(), 0..512);
    if seeds.is_empty() {
        return any_bytes.boxed();
    }
    let change = (any::<prop::sample::Index>(), any::<u8>(), 0..3u8);
    let grown = (prop::sample::select(seeds), prop::collection::vec(change, 0..8)).prop_map(|(mut bytes, changes)| {
        for (at, byte, how) in changes {
            let at = at.index(bytes.len() + 1);
            match how {
                0 if at < bytes.len() => bytes[at] = byte,
                1 if at < bytes.len() => drop(bytes.remove(at)),
                _ => bytes.insert(at, byte),
            }
        }
        bytes
    });
    prop_oneof![1 => any_bytes, 3 => grown].boxed()
}

#[test]
fn every_target_accepts_its_inputs() {
    let cases = std::env::var("PIJS_FUZZ_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    for (name, target) in TARGETS {
        files(&root().join("fixtures/regressions").join(name)).iter().for_each(|bytes| target(bytes));
        let seeds = seeds(name);
        seeds.iter().for_each(|seed| target(seed));
        let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
        let outcome = runner.run(&mutated(seeds), |bytes| {
            target(&bytes);
            Ok::<(), TestCaseError>(())
        });
        if let Err(failure) = outcome {
            panic!("{name}: {failure}");
        }
    }
}

#[test]
fn every_target_has_a_fuzzer() {
    let folder = root().join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&folder).expect("fuzz/fuzz_targets");
    let there: BTreeSet<String> = entries
        .flatten()
        .map(|entry| entry.path().file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    let wanted: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(there, wanted);
    let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).expect("fuzz/Cargo.toml");
    for name in &wanted {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not in fuzz/Cargo.toml");
        let text = fs::read_to_string(folder.join(format!("{name}.rs"))).expect("a target");
        assert!(text.contains(&format!("pijs_readers::{name}(data)")), "{name}.rs runs something else");
    }
}
