//! Suggests known names for a misspelt one.

/// Maximum edit distance (insertion, deletion, substitution, transposition) between a misspelt name and a suggestion; 1 for short
/// names.
const MAX_EDITS: usize = 2;

/// Maximum number of suggestions.
const MAX_SHOWN: usize = 3;

/// Returns the known name that is most similar to `name`.
pub fn similar<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest(name, known).into_iter().next()
}

/// Formats the known names that are most similar to `name`: `a`, or `a or b` for equal distances. `shown` formats each.
pub fn similar_names<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
    shown: impl Fn(&str) -> String,
) -> Option<String> {
    let names: Vec<String> = nearest(name, known).into_iter().take(MAX_SHOWN).map(shown).collect();
    (!names.is_empty()).then(|| names.join(" or "))
}

/// Returns all names at the least distance; those of the same length first.
fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let most = if name.len() < 6 { 1 } else { MAX_EDITS };
    let edits = known.into_iter().map(|known| (strsim::damerau_levenshtein(name, known), known));
    let mut found: Vec<(usize, &str)> = edits.filter(|(edits, _)| *edits <= most).collect();
    found.sort_by_key(|(edits, known)| (*edits, known.len().abs_diff(name.len()), *known));
    found.dedup();
    let least = found.first().map_or(0, |(edits, _)| *edits);
    found.into_iter().take_while(|(edits, _)| *edits == least).map(|(_, known)| known).collect()
}

/// Returns up to three models whose names are most similar to `name`, ignoring dots, dashes and case.
pub fn similar_models<'a>(name: &str, ids: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    const MOST: usize = 3;
    let letters = |name: &str| name.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase();
    let wanted = letters(name.rsplit('/').next().unwrap_or(name));
    let most = if wanted.len() < 6 { 1 } else { MAX_EDITS };
    let mut found: Vec<(usize, usize, String)> = ids
        .into_iter()
        .filter_map(|(provider, id)| {
            let known = letters(id.rsplit('/').next().unwrap_or(id));
            let edits = strsim::damerau_levenshtein(&wanted, &known);
            let begins = wanted.len() > 2 && known.starts_with(&wanted);
            (edits <= most || begins).then(|| (edits, id.len(), format!("{provider}/{id}")))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, _, name)| name).take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_found_regardless_of_dashes() {
        let known = [("openai", "gpt-5"), ("openai", "gpt-5-mini"), ("anthropic", "claude-opus-4-8"), ("x", "a/gpt-4")];
        assert_eq!(similar_models("gpt5", known), ["openai/gpt-5", "x/a/gpt-4", "openai/gpt-5-mini"]);
        assert_eq!(similar_models("anthropic/claude-opus-48", known), ["anthropic/claude-opus-4-8"]);
        assert!(similar_models("frobnicate", known).is_empty());
    }
}
