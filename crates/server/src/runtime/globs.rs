//! Patterns of paths that a token is bound to.
//!
//! `*` stands for anything inside of one part of a path, `**` for anything at all.

use noetl_types::Text;

/// Patterns of one token, at most.
const MAX_GLOBS: usize = 100;
/// Bytes of a pattern.
const MAX_BYTES: usize = 256;

/// Whether a list of patterns can be kept; else why not.
pub(super) fn check(globs: &[Text]) -> Result<(), String> {
    if globs.is_empty() || globs.len() > MAX_GLOBS {
        return Err(format!("path_globs, where given, are 1 to {MAX_GLOBS}"));
    }
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./*".contains(&byte);
    for glob in globs {
        if glob.is_empty() || glob.len() > MAX_BYTES || !glob.bytes().all(is_usual) {
            return Err(format!(
                "`{glob}` is no pattern of paths: 1 to {MAX_BYTES} letters, digits and _ - . / *"
            ));
        }
    }
    Ok(())
}

/// Whether a pattern stands for a path. Takes time by the length of both, whatever they hold.
pub(super) fn matches(glob: &str, path: &str) -> bool {
    let path = path.as_bytes();
    // Whether what was read of the pattern stands for the first so many bytes of the path.
    let mut reached = vec![false; path.len() + 1];
    reached[0] = true;
    let mut rest = glob.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let mut next = vec![reached[0] && *first == b'*'];
        let over = reached.iter().zip(reached.iter().skip(1)).zip(path);
        if *first == b'*' {
            let crosses = behind.first() == Some(&b'*');
            rest = if crosses { &behind[1..] } else { behind };
            let mut grows = reached[0];
            next.extend(over.map(|((_, here), byte)| {
                grows = *here || grows && (crosses || *byte != b'/');
                grows
            }));
        } else {
            rest = behind;
            next.extend(over.map(|((before, _), byte)| *before && byte == first));
        }
        reached = next;
    }
    reached.last() == Some(&true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stays_in_its_part_and_two_do_not() {
        for (glob, path, is_so) in [
            ("etl/daily", "etl/daily", true),
            ("etl/daily", "etl/daily2", false),
            ("etl/*", "etl/daily", true),
            ("etl/*", "etl/a/b", false),
            ("etl/*", "etl/", true),
            ("etl/*", "other/daily", false),
            ("etl/**", "etl/a/b/c", true),
            ("etl/**", "etl", false),
            ("**", "a/b", true),
            ("*", "a/b", false),
            ("*/b", "a/b", true),
            ("**/b", "a/x/b", true),
            ("a*c/d*", "abbc/d", true),
            ("a*c", "abcb", false),
        ] {
            assert_eq!(matches(glob, path), is_so, "{glob} {path}");
        }
        // No pattern takes longer than its length allows.
        let glob = "a*".repeat(128);
        assert!(!matches(&glob, &"a".repeat(127)));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        let ok = |globs: &[&str]| {
            let globs: Vec<Text> = globs.iter().map(|glob| Text::from(*glob)).collect();
            check(&globs).is_ok()
        };
        assert!(ok(&["etl/*", "**"]));
        assert!(!ok(&[]));
        assert!(!ok(&[""]));
        assert!(!ok(&["a b"]));
        assert!(!ok(&["[a-z]"]));
        assert!(!ok(&[&"a".repeat(257)]));
    }
}
