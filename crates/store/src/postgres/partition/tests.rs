use super::*;

#[test]
fn parses_partition_bounds() {
    assert_eq!(parse_bounds("FOR VALUES FROM ('5') TO ('9')"), Some((5, 9)));
    assert_eq!(parse_bounds("FOR VALUES FROM (5) TO (9)"), Some((5, 9)));
    assert_eq!(parse_bounds("FOR VALUES FROM (MINVALUE) TO ('9')"), Some((0, 9)));
    for bounds in [
        "DEFAULT",
        "FOR VALUES FROM ('5') TO (MAXVALUE)",
        "FOR VALUES FROM ('5') TO ('99999999999999999999')",
        "FOR VALUES IN (1, 2)",
        "FOR VALUES FROM ('5', '1') TO ('9', '1')",
        "",
    ] {
        assert_eq!(parse_bounds(bounds), None, "{bounds}");
    }
}
