use super::*;
use crate::config::GivenSettings;

#[test]
fn libraries_log_only_warnings() {
    for (target, level, is_logged) in [
        ("noetl_server::driver", Level::TRACE, true),
        ("noetl", Level::DEBUG, true),
        ("async_nats::connector", Level::DEBUG, false),
        ("async_nats::connection", Level::INFO, false),
        ("async_nats", Level::WARN, true),
        ("tokio_postgres", Level::ERROR, true),
    ] {
        assert_eq!(may_be_logged(target, level), is_logged, "{target} {level}");
    }
}

#[test]
fn debug_flag_yields_to_explicit_filter() {
    let filter = |variables: &[(&str, &str)]| {
        let variables = variables.iter().copied().collect();
        log_filter(&Config::load(&GivenSettings::default(), &variables).unwrap()).unwrap()
    };
    assert_eq!(filter(&[]), "info");
    assert_eq!(filter(&[("NOETL_DEBUG", "false")]), "info");
    assert_eq!(filter(&[("NOETL_DEBUG", "true")]), DEBUG_FILTER);
    let both = [("NOETL_DEBUG", "true"), ("NOETL_LOG", "warn")];
    assert_eq!(filter(&both), "warn");
}
