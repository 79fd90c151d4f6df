use std::collections::BTreeSet;

use noetl_types::Millis;

use super::Metrics;

const OPERATING_PAGE_PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating.md");

/// Metric names in the first column of the table of the page.
fn documented_metrics() -> BTreeSet<String> {
    let page = std::fs::read_to_string(OPERATING_PAGE_PATH).unwrap();
    let table = page.lines().skip_while(|line| !line.starts_with("| metric of the server |"));
    let rows = table.skip(2).take_while(|line| line.starts_with("| `"));
    let mut names = BTreeSet::new();
    for row in rows {
        let cell = row.split('|').nth(1).unwrap();
        // Every second piece is between two backticks.
        for name in cell.split('`').skip(1).step_by(2) {
            let metric = name.split('{').next().unwrap();
            assert!(names.insert(metric.to_owned()), "{metric} is listed twice");
        }
    }
    names
}

#[test]
fn operating_page_lists_all_metrics() {
    let metrics = Metrics::default();
    let registered: BTreeSet<String> = metrics.registry.metric_names().iter().cloned().collect();
    assert_eq!(documented_metrics(), registered);
}

#[test]
fn unknown_partition_headroom_is_omitted() {
    let metrics = Metrics::default();
    let headroom = |value: Option<Millis>| {
        metrics.platform.set_partition_headroom(value);
        let text = metrics.encode_text().unwrap();
        let mut lines = text.lines();
        let line = lines.find_map(|line| line.strip_prefix("noetl_partitions_ahead_days "));
        line.map(str::to_owned)
    };
    assert_eq!(headroom(None), None);
    assert_eq!(headroom(Some(Millis::from_days(40))).as_deref(), Some("40"));
    assert_eq!(headroom(None), None);
}
