//! Masks parts of the output that differ from run to run.

const BAR_CHARS: &str = "█░▒┄";

/// Replaces ids, times and durations with placeholders. Since their widths differ too, the columns of
/// such a line, and of all lines of its table, are then separated by two spaces.
pub(super) fn mask_variable_text(text: &str) -> String {
    let lines: Vec<MaskedLine> = text.split('\n').map(MaskedLine::parse_line).collect();
    let mut masked: Vec<String> = Vec::new();
    for table in lines.chunk_by(|_, next| next.is_row) {
        let is_table = table.first().is_some_and(|line| line.is_header);
        let is_compact = is_table && table.iter().any(|line| line.differs);
        masked.extend(table.iter().map(|line| line.render_line(is_compact || line.differs)));
    }
    masked.join("\n")
}

/// Word with the number of spaces before it.
struct MaskedWord {
    blanks: usize,
    text: String,
    is_masked: bool,
}

struct MaskedLine {
    words: Vec<MaskedWord>,
    /// True if the line contains variable text.
    differs: bool,
    /// True if the line contains column names.
    is_header: bool,
    /// True if the line can be a row below a header.
    is_row: bool,
}

impl MaskedLine {
    fn parse_line(text: &str) -> Self {
        let has_bar = text.contains(|c| BAR_CHARS.contains(c));
        let text: String = text.chars().filter(|c| !BAR_CHARS.contains(*c)).collect();
        let is_header_char = |c: char| c.is_ascii_uppercase() || c == ' ';
        let is_header = text.trim().contains("  ") && text.chars().all(is_header_char);
        let is_row = !is_header && !text.is_empty() && !text.starts_with(['$', '─']);
        let mut words = Vec::new();
        let mut blanks = 0;
        for text in text.split(' ') {
            if text.is_empty() {
                blanks += 1;
                continue;
            }
            let (text, is_masked) = mask_word(text);
            words.push(MaskedWord { blanks, text, is_masked });
            blanks = 1;
        }
        let words = mask_durations(words);
        Self {
            differs: has_bar || words.iter().any(|word| word.is_masked),
            words,
            is_header,
            is_row,
        }
    }

    fn render_line(&self, is_compact: bool) -> String {
        let mut line = String::new();
        for (index, word) in self.words.iter().enumerate() {
            let max_blanks = if index > 0 && is_compact { 2 } else { usize::MAX };
            line.push_str(&" ".repeat(word.blanks.min(max_blanks)));
            line.push_str(&word.text);
        }
        line
    }
}

/// Masks durations, which are numbers followed by a unit.
fn mask_durations(words: Vec<MaskedWord>) -> Vec<MaskedWord> {
    let mut masked: Vec<MaskedWord> = Vec::new();
    for mut word in words {
        let number = word.text.trim_start_matches(|c: char| c.is_ascii_digit());
        if matches!(number, "ms" | "s") && number.len() < word.text.len() {
            word.text = "TOOK".to_owned();
            word.is_masked = true;
        }
        let unit = word.text.trim_end_matches([',', ';', ')']);
        let rest = word.text[unit.len()..].to_owned();
        let is_unit = word.blanks == 1 && matches!(unit, "ms" | "s" | "min" | "h");
        let is_number = |word: &MaskedWord| {
            let number = word.text.trim_start_matches('(');
            !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '.')
        };
        let Some(number) = masked.pop_if(|last| is_unit && is_number(last)) else {
            masked.push(word);
            continue;
        };
        let mask = MaskedWord {
            blanks: number.blanks,
            text: format!(
                "{}TOOK{rest}",
                &number.text[..number.text.len() - number.text.trim_start_matches('(').len()]
            ),
            is_masked: true,
        };
        // On a busy machine a duration may have minutes and seconds.
        let is_repeated = mask.blanks == 1 && masked.last().is_some_and(|last| last.text == "TOOK");
        if is_repeated {
            masked.pop();
        }
        masked.push(mask);
    }
    masked
}

/// Masks ids, times and sizes in a word.
fn mask_word(text: &str) -> (String, bool) {
    if let Some(number) = text.strip_suffix("KiB")
        && number.chars().all(|c| c.is_ascii_digit() || c == '.')
    {
        return ("SIZE".to_owned(), true);
    }
    let mut masked = String::new();
    let mut rest = text;
    let mut is_masked = false;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, tail) = rest.split_at(start);
        masked.push_str(before);
        let time = tail.find('Z').filter(|end| is_time(&tail[..*end]));
        let digits = tail.len() - tail.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (mask, length) = match time {
            Some(end) => ("TIME", end + 1),
            None if digits > 12 => ("ID", digits),
            None => (&tail[..digits], digits),
        };
        is_masked |= time.is_some() || digits > 12;
        masked.push_str(mask);
        rest = &tail[length..];
    }
    masked.push_str(rest);
    (masked, is_masked)
}

/// True if the text is an RFC 3339 time without its final letter.
fn is_time(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    shape.trim_end_matches('0').trim_end_matches('.') == "0000-00-00T00:00:"
        || shape.starts_with("0000-00-00T00:00:00.") && shape[20..].chars().all(|c| c == '0')
}

#[test]
fn masks_variable_text_and_keeps_the_rest() {
    assert_eq!(mask_variable_text("schema 13, 336KiB KiBs"), "schema 13, SIZE KiBs");
    let text = "ID                   STATUS     TOOK\n\
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
    assert_eq!(mask_variable_text(text), masked);
}
