//! Runs the cases of `fixtures/rules/oracle`, one test for each case. With `PIJS_OMP_RULES`, a folder of oh-my-pi's bundled
//! rules, also runs the cases about these.

use libtest_mimic::{Arguments, Trial};
use pijs_rules::Origin;
use pijs_testkit::rule_oracle::{Suite, load};
use std::path::Path;
use std::sync::Arc;

fn main() {
    let bundled = std::env::var_os("PIJS_OMP_RULES").map(|folder| load(Path::new(&folder), Origin::BuiltIn));
    let suite = Arc::new(Suite::new(bundled));
    let of_rules = Arc::clone(&suite);
    let mut trials = vec![Trial::test("rules-that-stream", move || Ok(of_rules.check_rules()?))];
    for id in suite.ids() {
        let (of_case, id) = (Arc::clone(&suite), id.to_owned());
        trials.push(Trial::test(id.clone(), move || Ok(of_case.check_case(&id)?)));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
