//! A secret in base64.

use super::SHORTEST_SECRET;

/// In base64, alone or in the middle of something longer, of either alphabet. What comes before
/// shifts the text by none, one or two bytes, and the characters at either edge hold bits of the
/// neighbours: those in between are the same whatever stands around.
pub(super) fn packed(bytes: &[u8]) -> impl Iterator<Item = String> {
    let shifted = (0..3).map(move |shift| {
        let mut padded = vec![0; shift];
        padded.extend(bytes);
        let first = (shift * 8).div_ceil(6);
        let last = padded.len() * 8 / 6;
        sextets(&padded)
            .take(last)
            .skip(first)
            .collect::<Vec<usize>>()
    });
    let long_enough = shifted.filter(|sextets| sextets.len() >= SHORTEST_SECRET);
    long_enough.flat_map(|sextets| {
        ["+/", "-_"].map(|ends| {
            let alphabet: Vec<char> = ('A'..='Z')
                .chain('a'..='z')
                .chain('0'..='9')
                .chain(ends.chars())
                .collect();
            sextets.iter().map(|sextet| alphabet[*sextet]).collect()
        })
    })
}

/// A text of bytes as numbers of six bits; bits that are missing at the end are zero.
pub(super) fn sextets(bytes: &[u8]) -> impl Iterator<Item = usize> {
    bytes.chunks(3).flat_map(|chunk| {
        let byte = |index: usize| usize::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        [18, 12, 6, 0].map(|shift| bits >> shift & 63)
    })
}
