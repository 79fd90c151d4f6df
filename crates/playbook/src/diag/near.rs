//! "Did you mean".

/// The known name closest to `name`, at most two edits away; of equals, the first.
pub(crate) fn near<'c>(
    name: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    let folded = name.to_lowercase();
    let length = folded.chars().count();
    candidates
        .into_iter()
        .filter(|candidate| *candidate != name)
        // A long candidate cannot be near, and measuring it would cost.
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= 2)
        .map(|candidate| {
            (
                strsim::osa_distance(&folded, &candidate.to_lowercase()),
                candidate,
            )
        })
        // Two edits turn any word of two letters into any other: that is no likeness.
        .filter(|(distance, candidate)| {
            *distance <= 2 && *distance < length.min(candidate.chars().count())
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::near;

    #[test]
    fn a_likely_name_is_found() {
        assert_eq!(near("fnish", ["start", "finish"]), Some("finish"));
        assert_eq!(near("Kind", ["kind"]), Some("kind"));
        assert_eq!(near("pyhton", ["python", "http"]), Some("python"));
        assert_eq!(near("ab", ["xy"]), None);
        assert_eq!(near("completely", ["different"]), None);
    }
}
