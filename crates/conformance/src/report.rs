//! A run as a page for people.

use crate::baseline::{Baseline, Counts};
use crate::corpus::Kind;
use crate::run::{Outcome, Verdict};
use std::fmt::Write;

/// One self-contained page: counts, then every case with its differences.
pub fn html(outcomes: &[Outcome], baseline: &Baseline) -> String {
    let mut rows = String::new();
    for outcome in outcomes {
        let key = outcome.case.key();
        let known = baseline.known.get(&key);
        let (class, word) = match (&outcome.verdict, known) {
            (Verdict::Same, _) => ("same", "as in pi"),
            (_, Some(_)) => ("known", "known"),
            (_, None) => ("worse", "differs"),
        };
        let mut detail = known.map(|reason| format!("<p>{}</p>", escape(reason))).unwrap_or_default();
        match &outcome.verdict {
            Verdict::Same => {}
            Verdict::Broken(why) => detail.push_str(&format!("<pre>{}</pre>", escape(why))),
            Verdict::Differs(differences) => {
                for difference in differences {
                    detail.push_str(&format!("<pre>{}</pre>", escape(&difference.to_string())));
                }
            }
        }
        let detail = match detail.is_empty() {
            true => escape(&key),
            false => format!("<details><summary>{}</summary>{detail}</details>", escape(&key)),
        };
        let _ = writeln!(rows, "<tr class=\"{class}\"><td>{word}</td><td>{detail}</td></tr>");
    }
    let same = Counts::passing(outcomes);
    let all = |kind| outcomes.iter().filter(|outcome| outcome.case.kind == kind).count();
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Conformance</title>\n<style>\
         body{{font:15px/1.4 system-ui;margin:2rem auto;max-width:70rem;padding:0 1rem}}\
         table{{border-collapse:collapse;width:100%}}td{{padding:.3rem .6rem;border-bottom:1px solid #8884;vertical-align:top}}\
         td:first-child{{white-space:nowrap}}.same td:first-child{{color:#2e7d32}}.known td:first-child{{color:#8a5a00}}\
         .worse td:first-child{{color:#b3261e;font-weight:bold}}pre{{white-space:pre-wrap;overflow-wrap:anywhere}}\
         </style>\n<h1>Conformance with pi</h1>\n<p>Registrations: {} of {}. Behaviour: {} of {}.</p>\n<table>\n{rows}</table>\n</html>\n",
        same.snapshots,
        all(Kind::Snapshot),
        same.traces,
        all(Kind::Trace),
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
