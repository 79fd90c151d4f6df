//! Suggestions for misspelled names.

/// Returns the candidate closest to `name`, at most two edits away. Ties go to the first candidate.
pub(crate) fn nearest_name<'c>(
    name: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    let folded = name.to_lowercase();
    let length = folded.chars().count();
    candidates
        .into_iter()
        .filter(|candidate| *candidate != name)
        // The edit distance is at least the difference in length, so this avoids computing it.
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= 2)
        .map(|candidate| (strsim::osa_distance(&folded, &candidate.to_lowercase()), candidate))
        // Two edits turn any two-letter word into any other, so the distance must also be less than
        // the length of the shorter word.
        .filter(|(distance, candidate)| {
            *distance <= 2 && *distance < length.min(candidate.chars().count())
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest_name;

    #[test]
    fn suggests_similar_name() {
        assert_eq!(nearest_name("fnish", ["start", "finish"]), Some("finish"));
        assert_eq!(nearest_name("Kind", ["kind"]), Some("kind"));
        assert_eq!(nearest_name("pyhton", ["python", "http"]), Some("python"));
        assert_eq!(nearest_name("ab", ["xy"]), None);
        assert_eq!(nearest_name("completely", ["different"]), None);
    }
}
