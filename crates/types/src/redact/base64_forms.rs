//! Base64 forms of a secret.

use super::MIN_SECRET_CHARS;

/// Returns the base64 forms of a secret, alone or inside longer data, in both alphabets. Preceding
/// data shifts the secret by 0, 1 or 2 bytes, and the characters at both edges contain bits of
/// adjacent bytes. The characters in between do not depend on the adjacent data.
pub(super) fn base64_forms(bytes: &[u8]) -> impl Iterator<Item = String> {
    let shifted = (0..3).map(move |shift| {
        let mut padded = vec![0; shift];
        padded.extend(bytes);
        let first = (shift * 8).div_ceil(6);
        let last = padded.len() * 8 / 6;
        to_sextets(&padded).take(last).skip(first).collect::<Vec<usize>>()
    });
    let long_enough = shifted.filter(|sextets| sextets.len() >= MIN_SECRET_CHARS);
    long_enough.flat_map(|sextets| {
        ["+/", "-_"].map(|ends| {
            let alphabet: Vec<char> =
                ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(ends.chars()).collect();
            sextets.iter().map(|sextet| alphabet[*sextet]).collect()
        })
    })
}

/// Splits bytes into 6-bit numbers. Missing bits at the end are zero.
pub(super) fn to_sextets(bytes: &[u8]) -> impl Iterator<Item = usize> {
    bytes.chunks(3).flat_map(|chunk| {
        let byte = |index: usize| usize::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        [18, 12, 6, 0].map(|shift| bits >> shift & 63)
    })
}
