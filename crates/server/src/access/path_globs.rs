//! Path patterns that restrict a token.
//!
//! `*` matches any characters within one path segment, `**` matches any characters.

use noetl_types::Text;

/// Maximum patterns per token.
const MAX_GLOBS: usize = 100;
/// Maximum bytes of a pattern.
const MAX_GLOB_BYTES: usize = 256;

/// Checks that a list of patterns is valid. The error is the reason.
pub(crate) fn validate_globs(globs: &[Text]) -> Result<(), String> {
    if globs.is_empty() || globs.len() > MAX_GLOBS {
        return Err(format!("path_globs must have 1 to {MAX_GLOBS} patterns"));
    }
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./*".contains(&byte);
    for glob in globs {
        if glob.is_empty() || glob.len() > MAX_GLOB_BYTES || !glob.bytes().all(is_allowed) {
            return Err(format!(
                "`{glob}` is not a path pattern; use 1 to {MAX_GLOB_BYTES} letters, digits and _ - . / *"
            ));
        }
    }
    Ok(())
}

/// True if a pattern matches a path. The run time is bounded by the product of both lengths, for
/// all inputs.
pub(crate) fn glob_matches(glob: &str, path: &str) -> bool {
    let path = path.as_bytes();
    // `reached[n]` is true if the part of the pattern read so far matches the first `n` bytes of
    // the path.
    let mut reached = vec![false; path.len() + 1];
    reached[0] = true;
    let mut rest = glob.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let mut next = vec![reached[0] && *first == b'*'];
        let positions = reached.iter().zip(reached.iter().skip(1)).zip(path);
        if *first == b'*' {
            let crosses_segments = tail.first() == Some(&b'*');
            rest = if crosses_segments { &tail[1..] } else { tail };
            let mut is_reached = reached[0];
            next.extend(positions.map(|((_, matched), byte)| {
                is_reached = *matched || is_reached && (crosses_segments || *byte != b'/');
                is_reached
            }));
        } else {
            rest = tail;
            next.extend(positions.map(|((before, _), byte)| *before && byte == first));
        }
        reached = next;
    }
    reached.last() == Some(&true)
}

#[cfg(test)]
mod tests;
