//! Compares the store with a simple model (a map) over random verbs of a run and its forks.

use pijs_dialect_rummy::{Options, Relocate, Removal, Set, State, Store, Target, Visibility, Writer};
use std::collections::BTreeMap;

type Seen = BTreeMap<(i64, String), (String, State, Visibility)>;

struct Random(u32);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 16) as usize % limit
    }
}

/// Applies one random verb to the store and to the model.
fn step(
    store: &mut Store,
    seen: &mut Seen,
    runs: &[i64],
    random: &mut Random,
) -> Result<(), pijs_dialect_rummy::StoreError> {
    let run = runs[random.below(runs.len())];
    let path = format!("known://{}", ["a", "b", "b/c", "d"][random.below(4)]);
    let key = (run, path.clone());
    match random.below(8) {
        0 | 1 => {
            let body = format!("body {}", random.below(1000));
            store.set(&Set::new(run, &path).body(body.clone()), Writer::Plugin)?;
            seen.insert(key, (body, State::Resolved, Visibility::Summarized));
        }
        2 => {
            store.set(&Set::new(run, &path).body("+").appending(), Writer::Plugin)?;
            if let Some((body, ..)) = seen.get_mut(&key) {
                body.push('+');
            }
        }
        3 => {
            let state = State::ALL[random.below(State::ALL.len())];
            store.set(&Set::new(run, &path).state(state), Writer::Plugin)?;
            if let Some((_, of, _)) = seen.get_mut(&key) {
                *of = state;
            }
        }
        4 => {
            let shown = Visibility::ALL[random.below(Visibility::ALL.len())];
            let target = Target { run_id: run, path: "known://b**".to_owned(), ..Target::default() };
            store.get(&target, shown, Writer::Plugin)?;
            for ((of, path), (.., visibility)) in seen.iter_mut() {
                if *of == run && path == "known://b" {
                    *visibility = shown;
                }
            }
        }
        5 => {
            let target = Target { run_id: run, path, ..Target::default() };
            store.rm(&Removal { target, files_only: false }, Writer::Plugin)?;
            seen.remove(&key);
        }
        6 => {
            let to = format!("known://{}", ["a", "e"][random.below(2)]);
            let is_move = random.below(2) == 0;
            let relocate = Relocate { from: path.clone(), to: Set::new(run, &to) };
            if is_move {
                store.mv(&relocate, Writer::Plugin)?
            } else {
                store.cp(&relocate, Writer::Plugin)?
            };
            if is_move && path == to {
                return Ok(());
            }
            if let Some((body, ..)) = seen.get(&key).cloned() {
                seen.insert((run, to), (body, State::Resolved, Visibility::Summarized));
            }
            if is_move {
                seen.remove(&key);
            }
        }
        _ => {
            let body = format!("filtered {}", random.below(10));
            let set = Set {
                pattern: true,
                body_filter: Some("+".to_owned()),
                ..Set::new(run, "known://*").body(body.clone())
            };
            store.set(&set, Writer::Plugin)?;
            for ((of, _), (was, ..)) in seen.iter_mut() {
                if *of == run && was.contains('+') {
                    was.clone_from(&body);
                }
            }
        }
    }
    Ok(())
}

fn check(store: &Store, seen: &Seen, runs: &[i64], when: &str) {
    for run in runs {
        let found: Vec<_> = store
            .entries_by_pattern(*run, "known://*", None)
            .expect("they are read")
            .into_iter()
            .map(|entry| (entry.path, (entry.body, entry.state, entry.visibility)))
            .collect();
        let expected: Vec<_> = seen
            .iter()
            .filter(|((of, _), _)| of == run)
            .map(|((_, path), value)| (path.clone(), value.clone()))
            .collect();
        assert_eq!(found, expected, "{when}: run {run}");
    }
}

#[test]
fn random_verbs_do_what_a_map_does() {
    for seed in 0..12 {
        let mut random = Random(seed);
        let mut store = Store::in_memory(Options::default()).expect("a store");
        let project = store.upsert_project("demo", None, None).expect("a project");
        let mut seen = Seen::new();
        let mut runs = vec![store.create_run(project, "run_0", None, None).expect("a run")];
        for number in 0..150 {
            if number % 40 == 20 {
                let parent = runs[random.below(runs.len())];
                let child = store.create_run(project, &format!("run_{number}"), None, Some(parent)).expect("a run");
                store.fork(parent, child).expect("it forks");
                let of_parent: Vec<_> = seen.iter().filter(|((of, _), _)| *of == parent).collect();
                let copies: Vec<_> =
                    of_parent.into_iter().map(|((_, path), value)| ((child, path.clone()), value.clone())).collect();
                seen.extend(copies);
                runs.push(child);
            }
            step(&mut store, &mut seen, &runs, &mut random).expect("the verb is done");
            check(&store, &seen, &runs, &format!("seed {seed}, verb {number}"));
        }
    }
}
