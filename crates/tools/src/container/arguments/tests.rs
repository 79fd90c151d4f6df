use super::*;

#[test]
fn accepts_forwardable_variable_names() {
    for name in ["MINE", "_x1", "DB_PASSWORD"] {
        assert!(can_pass_through_client(name), "{name}");
    }
    for name in ["PATH", "DOCKER_HOST", "http_proxy", "discovery.type", "a-b", "1A"] {
        assert!(!can_pass_through_client(name), "{name}");
    }
}

#[test]
fn parses_memory_and_cpu_limits() {
    for (text, bytes) in [
        ("512Mi", 512 << 20),
        ("1Gi", 1 << 30),
        ("64KiB", 64 << 10),
        ("100M", 100_000_000),
        ("4096", 4096),
    ] {
        assert_eq!(parse_memory(&Json::from(text)).unwrap().as_bytes(), bytes);
    }
    assert_eq!(parse_memory(&Json::from(7)).unwrap().as_bytes(), 7);
    for (value, cpu) in [("500m", "0.500"), ("2", "2.000"), ("0.25", "0.250")] {
        assert_eq!(parse_cpus(&Json::from(value)).unwrap(), cpu);
    }
    for wrong in ["", "Mi", "1.5Gi", "-1", "1Ti x"] {
        assert!(parse_memory(&Json::from(wrong)).is_err(), "{wrong}");
    }
    for wrong in ["", "m", "0", "-1", "many", "inf", "NaN"] {
        assert!(parse_cpus(&Json::from(wrong)).is_err(), "{wrong}");
    }
}
