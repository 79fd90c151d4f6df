use super::*;

#[test]
fn local_servers_need_no_certificate() {
    let default_level = |address: &str| {
        let config: tokio_postgres::Config = address.parse().unwrap();
        TlsVerification::default_for_hosts(config.get_hosts())
    };
    for local in ["host=/run/pg", "host=localhost", "host=127.0.0.1,::1", "user=u"] {
        assert_eq!(default_level(local), TlsVerification::Prefer, "{local}");
    }
    for remote in ["host=db", "host=10.0.0.7", "host=localhost,db"] {
        assert_eq!(default_level(remote), TlsVerification::VerifyFull, "{remote}");
    }
}
