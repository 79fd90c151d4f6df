use std::collections::BTreeSet;

use noetl_types::Millis;

use super::Metrics;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating.md");

/// The names in the first column of the table of the page.
fn told() -> BTreeSet<String> {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let table = page
        .lines()
        .skip_while(|line| !line.starts_with("| metric of the server |"));
    let rows = table.skip(2).take_while(|line| line.starts_with("| `"));
    let mut names = BTreeSet::new();
    for row in rows {
        let cell = row.split('|').nth(1).unwrap();
        // Every other piece stands between two marks.
        for name in cell.split('`').skip(1).step_by(2) {
            let bare = name.split('{').next().unwrap();
            assert!(names.insert(bare.to_owned()), "{bare} is there twice");
        }
    }
    names
}

#[test]
fn the_page_for_operators_names_what_is_counted_and_nothing_else() {
    let metrics = Metrics::default();
    let counted: BTreeSet<String> = metrics.book.names().iter().cloned().collect();
    assert_eq!(told(), counted);
}

#[test]
fn room_that_is_not_known_is_not_told() {
    let metrics = Metrics::default();
    let told = |room: Option<Millis>| {
        metrics.platform().room(room);
        let text = metrics.text().unwrap();
        let mut lines = text.lines();
        let line = lines.find_map(|line| line.strip_prefix("noetl_partitions_ahead_days "));
        line.map(str::to_owned)
    };
    assert_eq!(told(None), None);
    assert_eq!(told(Some(Millis::from_days(40))).as_deref(), Some("40"));
    assert_eq!(told(None), None);
}
