//! What differs from run to run, made the same.

/// Letters of bars.
const BARS: &str = "█░▒┄";

/// A text whose ids, times and durations are words. Where there is one, columns are two blanks apart,
/// since their widths differ too: on its line, and in all of its table.
pub(super) fn steady(text: &str) -> String {
    let lines: Vec<Line> = text.split('\n').map(Line::read).collect();
    let mut steady: Vec<String> = Vec::new();
    for table in lines.chunk_by(|_, next| next.is_row) {
        let is_table = table.first().is_some_and(|line| line.is_header);
        let is_loose = is_table && table.iter().any(|line| line.differs);
        steady.extend(
            table
                .iter()
                .map(|line| line.shown(is_loose || line.differs)),
        );
    }
    steady.join("\n")
}

/// A word and how many blanks stand before it.
struct Word {
    blanks: usize,
    text: String,
    is_masked: bool,
}

struct Line {
    words: Vec<Word>,
    /// Whether it holds what differs from run to run.
    differs: bool,
    /// Whether it names columns.
    is_header: bool,
    /// Whether it may stand below such names.
    is_row: bool,
}

impl Line {
    fn read(text: &str) -> Self {
        let is_drawn = text.contains(|letter| BARS.contains(letter));
        let text: String = text
            .chars()
            .filter(|letter| !BARS.contains(*letter))
            .collect();
        let is_name = |letter: char| letter.is_ascii_uppercase() || letter == ' ';
        let is_header = text.trim().contains("  ") && text.chars().all(is_name);
        let is_row = !is_header && !text.is_empty() && !text.starts_with(['$', '─']);
        let mut words = Vec::new();
        let mut blanks = 0;
        for text in text.split(' ') {
            if text.is_empty() {
                blanks += 1;
                continue;
            }
            let (text, is_masked) = word(text);
            words.push(Word {
                blanks,
                text,
                is_masked,
            });
            blanks = 1;
        }
        let words = durations(words);
        Self {
            differs: is_drawn || words.iter().any(|word| word.is_masked),
            words,
            is_header,
            is_row,
        }
    }

    fn shown(&self, is_loose: bool) -> String {
        let mut shown = String::new();
        for (place, word) in self.words.iter().enumerate() {
            let most = if place > 0 && is_loose { 2 } else { usize::MAX };
            shown.push_str(&" ".repeat(word.blanks.min(most)));
            shown.push_str(&word.text);
        }
        shown
    }
}

/// Numbers with a unit behind them are a duration.
fn durations(words: Vec<Word>) -> Vec<Word> {
    let mut all: Vec<Word> = Vec::new();
    for mut word in words {
        let number = word.text.trim_start_matches(|l: char| l.is_ascii_digit());
        if matches!(number, "ms" | "s") && number.len() < word.text.len() {
            word.text = "TOOK".to_owned();
            word.is_masked = true;
        }
        let unit = word.text.trim_end_matches([',', ';', ')']);
        let rest = word.text[unit.len()..].to_owned();
        let is_unit = word.blanks == 1 && matches!(unit, "ms" | "s" | "min" | "h");
        let is_number = |word: &Word| {
            let number = word.text.trim_start_matches('(');
            !number.is_empty() && number.chars().all(|l| l.is_ascii_digit() || l == '.')
        };
        let Some(number) = all.pop_if(|last| is_unit && is_number(last)) else {
            all.push(word);
            continue;
        };
        let mask = Word {
            blanks: number.blanks,
            text: format!(
                "{}TOOK{rest}",
                &number.text[..number.text.len() - number.text.trim_start_matches('(').len()]
            ),
            is_masked: true,
        };
        // On a machine that is busy, a moment may take minutes and seconds.
        let is_again = mask.blanks == 1 && all.last().is_some_and(|last| last.text == "TOOK");
        if is_again {
            all.pop();
        }
        all.push(mask);
    }
    all
}

/// Masks ids and times in a word.
fn word(text: &str) -> (String, bool) {
    let mut masked = String::new();
    let mut rest = text;
    let mut is_masked = false;
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let (before, from) = rest.split_at(at);
        masked.push_str(before);
        let time = from.find('Z').filter(|end| is_time(&from[..*end]));
        let digits = from.len() - from.trim_start_matches(|l: char| l.is_ascii_digit()).len();
        let (mask, length) = match time {
            Some(end) => ("TIME", end + 1),
            None if digits > 12 => ("ID", digits),
            None => (&from[..digits], digits),
        };
        is_masked |= time.is_some() || digits > 12;
        masked.push_str(mask);
        rest = &from[length..];
    }
    masked.push_str(rest);
    (masked, is_masked)
}

/// Whether a text is a time as of RFC 3339, without its last letter.
fn is_time(text: &str) -> bool {
    let shape: String = text
        .chars()
        .map(|letter| if letter.is_ascii_digit() { '0' } else { letter })
        .collect();
    shape.trim_end_matches('0').trim_end_matches('.') == "0000-00-00T00:00:"
        || shape.starts_with("0000-00-00T00:00:00.")
            && shape[20..].chars().all(|letter| letter == '0')
}

#[test]
fn what_differs_is_masked_and_the_rest_keeps_its_place() {
    let shown = "ID                   STATUS     TOOK\n\
                 308400000000000001   COMPLETED  1.25 s, fine\n\
                 -                    -          -\n\
                 ──── exit 0\n\
                 TABLE    ROWS\n\
                 event       9\n\
                 \n\
                 a  b     2026-01-02T03:04:05.006Z    1:308400000000000001:2  7 s ago    x\n\
                 after 71ms\n\
                 \x20 kept    as it is 12";
    let masked = "ID  STATUS  TOOK\n\
                  ID  COMPLETED  TOOK, fine\n\
                  -  -  -\n\
                  ──── exit 0\n\
                  TABLE    ROWS\n\
                  event       9\n\
                  \n\
                  a  b  TIME  1:ID:2  TOOK ago  x\n\
                  after TOOK\n\
                  \x20 kept    as it is 12";
    assert_eq!(steady(shown), masked);
}
