//! `pi --list-models`.

use crate::output::{clean, stdout};
use pijs_llm::catalogue;
use pijs_llm::choose;
use pijs_llm::models::{Models, has_client};
use pijs_llm::provider::Model;
use serde_json::Value;

/// `pi --list-models [SEARCH]`: prints the models that can be used, or could be used with a key.
pub(crate) fn list(models: &Models, search: &str) {
    let available = models.available();
    if available.is_empty() {
        stdout("No model can be used: no provider has a key.");
        stdout("Set one of these, or store a key in auth.json:");
        for provider in catalogue::providers().filter(|provider| has_client(&catalogue::models(&provider.id))) {
            if let Some(name) = provider.env.last() {
                stdout(&format!("  {:<28} {name}", provider.id));
            }
        }
        return;
    }
    let mut found: Vec<&Model> =
        available.iter().filter(|model| matches(search, &format!("{} {}", model.provider, model.id))).collect();
    if found.is_empty() {
        stdout(&format!("No models matching {search:?}"));
        return;
    }
    found.sort_by_key(|model| (choose::collated(&model.provider), choose::collated(&model.id)));
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let images = |model: &Model| {
        let input = model.facts.get("input").and_then(Value::as_array);
        input.is_some_and(|input| input.iter().any(|kind| kind == "image"))
    };
    let heads = ["provider", "model", "context", "max-out", "thinking", "images"].map(str::to_owned);
    let row = |model: &&Model| {
        let tokens = |count: Option<u64>| count.map(shortened).unwrap_or_else(|| "0".to_owned());
        [
            clean(&model.provider),
            clean(&model.id),
            tokens(model.context_window()),
            tokens(model.max_tokens()),
            yes(model.reasoning()),
            yes(images(model)),
        ]
    };
    let rows: Vec<[String; 6]> = [heads].into_iter().chain(found.iter().map(row)).collect();
    let mut widths = [0; 6];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in rows {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        stdout(cells.join("  ").trim_end());
    }
}

/// Returns whether the text contains the characters of each search word in order.
fn matches(search: &str, text: &str) -> bool {
    let text = text.to_lowercase();
    search.to_lowercase().split_whitespace().all(|word| {
        let mut rest = text.chars();
        word.chars().all(|wanted| rest.any(|character| character == wanted))
    })
}

/// Formats `200000` as `200K`.
fn shortened(count: u64) -> String {
    let in_units = |unit: u64, letter: char| match count % unit {
        0 => format!("{}{letter}", count / unit),
        _ => format!("{:.1}{letter}", count as f64 / unit as f64),
    };
    match count {
        1_000_000.. => in_units(1_000_000, 'M'),
        1000.. => in_units(1000, 'K'),
        _ => count.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_short_and_a_search_is_loose() {
        for (count, short) in [(900, "900"), (1000, "1K"), (131_072, "131.1K"), (1_000_000, "1M"), (1_048_576, "1.0M")]
        {
            assert_eq!(shortened(count), short);
        }
        assert!(
            matches("opus 48", "anthropic claude-opus-4-8") && matches("", "x") && !matches("gpt", "anthropic claude")
        );
    }
}
