use super::*;

const ROWS: [(&str, u32, &str); 2] =
    [("a", 1, "x"), ("a name that is rather long, for a name", 12, "y")];

fn sample_table() -> TextTable<'static, (&'static str, u32, &'static str)> {
    TextTable::new(&ROWS)
        .shrinkable("NAME", |row| row.0)
        .right("N", |row| row.1)
        .wide("MORE", |row| row.2)
}

#[test]
fn columns_align_and_shrink_on_terminal() {
    let mut out = Vec::new();
    let piped = OutputStream::plain(&mut out);
    insta::assert_snapshot!(sample_table().render_table(true, true, &piped), @r"
        NAME                                     N  MORE
        a                                        1  x
        a name that is rather long, for a name  12  y
        ");
    insta::assert_snapshot!(sample_table().render_table(false, false, &piped), @r"
        a                                        1
        a name that is rather long, for a name  12
        ");
    let mut out = Vec::new();
    let narrow = OutputStream::terminal(&mut out, 40);
    let text =
        anstream::adapter::strip_str(&sample_table().render_table(true, true, &narrow)).to_string();
    assert!(text.lines().all(|line| display_width(line) <= 40), "{text}");
    assert!(text.contains('…'), "{text}");
}

#[test]
fn cell_control_characters_are_escaped() {
    let table = TextTable::new(&["x\u{1b}[2J"]).column("A", |text| text);
    let mut out = Vec::new();
    let text = table.render_table(false, false, &OutputStream::plain(&mut out));
    assert_eq!(text, "x\\u{1b}[2J\n");
}
